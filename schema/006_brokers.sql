-- A broker acknowledges before it flushes: a power cut takes messages that are
-- marked as relayed. Each start of a broker has an id of its own. The first
-- relay that meets one that is not listed here sends the newest domain events
-- again; applications know each by (payment_id, seq).
-- Cost on a large database: the index reads the whole outbox once, and holds a
-- few pages.

CREATE TABLE brokers_met (
  server_id text NOT NULL,
  met_at    timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT brokers_met_pkey PRIMARY KEY (server_id)
);

-- Rows are relayed nearly in the order of the table, so a summary of each
-- range of pages finds the newest; it costs the relay's updates nothing.
CREATE INDEX outbox_relayed_at ON outbox USING brin (relayed_at) WITH (pages_per_range = 16, autosummarize = on);

DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'umavez_processor') THEN
    GRANT SELECT, INSERT, DELETE ON brokers_met TO umavez_processor;
  END IF;
END $$;
