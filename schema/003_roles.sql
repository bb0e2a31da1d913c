-- Roles with least rights, without login: grant them to the users that the
-- binaries connect as. Roles belong to the whole cluster; where this user may
-- not create them, an administrator runs this block and migrate goes on.
-- Cost on a large database: none.

DO $$
DECLARE
  r text;
BEGIN
  FOREACH r IN ARRAY ARRAY['umavez_ingest', 'umavez_processor', 'umavez_sweeper', 'umavez_app', 'umavez_reader'] LOOP
    BEGIN
      EXECUTE format('CREATE ROLE %I NOLOGIN', r);
    EXCEPTION
      WHEN duplicate_object OR unique_violation THEN NULL;
      WHEN insufficient_privilege THEN
        RAISE NOTICE 'role % was not created: this user may not create roles', r;
    END;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = r) THEN
      EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), r);
      IF to_regclass('umavez_schema_version') IS NOT NULL THEN  -- every process checks at start that the schema fits
        EXECUTE format('GRANT SELECT ON umavez_schema_version TO %I', r);
      END IF;
    END IF;
  END LOOP;

  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'umavez_ingest') THEN
    GRANT INSERT ON event_bodies TO umavez_ingest;
    GRANT SELECT, INSERT ON events, event_results, event_work TO umavez_ingest;
    GRANT UPDATE (turn, since, next_at, parks, state, reason, reason_since) ON event_work TO umavez_ingest;
    GRANT SELECT, INSERT, UPDATE ON event_redeliveries, rejected_deliveries TO umavez_ingest;
    GRANT USAGE ON SEQUENCE rejected_deliveries_slot TO umavez_ingest;
  END IF;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'umavez_processor') THEN
    GRANT SELECT ON events, event_bodies, payment_registrations TO umavez_processor;
    GRANT SELECT, INSERT, UPDATE, DELETE ON event_work TO umavez_processor;
    GRANT SELECT, INSERT ON event_results, payment_transitions, ledger_accounts, ledger_entries TO umavez_processor;
    GRANT SELECT, INSERT, UPDATE ON payments, ledger_balances, outbox TO umavez_processor;
    IF to_regclass('brokers_met') IS NOT NULL THEN  -- made by a later migration, which grants it too
      GRANT SELECT, INSERT, DELETE ON brokers_met TO umavez_processor;
    END IF;
  END IF;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'umavez_sweeper') THEN
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO umavez_sweeper', current_schema());
    GRANT INSERT ON events, event_bodies, event_results TO umavez_sweeper;
    GRANT INSERT, UPDATE, DELETE ON event_work TO umavez_sweeper;
    GRANT DELETE ON events, event_results, event_redeliveries, rejected_deliveries TO umavez_sweeper;  -- KEY_RETENTION
    GRANT EXECUTE ON FUNCTION ensure_body_partitions(date, integer), drop_body_partition(date), first_day_of_needed_bodies(date) TO umavez_sweeper;
    GRANT DELETE ON event_bodies_default TO umavez_sweeper;                                           -- BODY_RETENTION
  END IF;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'umavez_app') THEN
    GRANT SELECT ON payments, payment_transitions, ledger_accounts, ledger_entries, ledger_balances, outbox,
      payment_registrations, webhook_events, set_aside_events TO umavez_app;
    IF to_regclass('unfinished_events') IS NOT NULL THEN  -- made by a later migration, which grants it too
      GRANT SELECT ON unfinished_events TO umavez_app;
    END IF;
    GRANT EXECUTE ON FUNCTION register_payment(text, text, text, bigint, text, text, text) TO umavez_app;
  END IF;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'umavez_reader') THEN
    GRANT SELECT ON payments, payment_transitions, ledger_accounts, ledger_entries, ledger_balances,
      payment_registrations, outbox TO umavez_reader;
  END IF;

  -- Whoever may create in this schema could put a better-matching function in
  -- the way of those that run with their owner's rights. Before PostgreSQL 15
  -- everybody may create in "public"; migrate checks that it took effect.
  EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', current_schema());

  -- Functions that run with their owner's rights see this schema and no other.
  -- Unless pg_temp is named, it is searched first: a caller's temporary table
  -- would be taken for ours, and a trigger on it would run as the owner.
  EXECUTE format('ALTER FUNCTION register_payment(text, text, text, bigint, text, text, text) SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION ensure_body_partitions(date, integer) SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION drop_body_partition(date) SET search_path = %I, pg_temp', current_schema());
END $$;

REVOKE ALL ON FUNCTION register_payment(text, text, text, bigint, text, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION ensure_body_partitions(date, integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION drop_body_partition(date) FROM PUBLIC;

---- create above / drop below ----
-- Forward only: there is no way back.
