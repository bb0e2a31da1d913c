-- Events are append-only. What never changes (events, event_bodies), what is
-- unfinished (event_work) and what is final (event_results) live apart, so
-- that settling an event deletes one small row and inserts another.
-- Cost on a large database: none, the tables are new.

CREATE TABLE events (
  id                bigint GENERATED ALWAYS AS IDENTITY,
  received_at       timestamptz NOT NULL DEFAULT now(),   -- the database's clock
  occurred_at       timestamptz,                          -- the gateway's clock, where it says
  test              boolean NOT NULL DEFAULT false,
  provider          text NOT NULL,
  account           text NOT NULL,
  dedupe_key        text NOT NULL,
  type              text NOT NULL,
  provider_event_id text,
  payment_ref       text,                                 -- the gateway's payment id
  secret            text NOT NULL,                        -- label of the secret that matched
  body_sha256       bytea NOT NULL,
  CONSTRAINT events_pkey PRIMARY KEY (id),
  CONSTRAINT events_once UNIQUE (provider, account, dedupe_key)
);
CREATE INDEX events_received ON events USING brin (received_at);
CREATE INDEX events_payment ON events (payment_ref, id) WHERE payment_ref IS NOT NULL;

-- Bodies go by day, so that retention drops a partition instead of deleting
-- rows. The DEFAULT partition catches a day nobody prepared: an insert never
-- fails for want of a partition.
CREATE TABLE event_bodies (
  received_on date NOT NULL,
  event_id    bigint NOT NULL,
  body        bytea NOT NULL,                             -- exact bytes
  headers     text[] NOT NULL DEFAULT '{}',               -- name, value, name, value ...
  CONSTRAINT event_bodies_pkey PRIMARY KEY (event_id, received_on)
) PARTITION BY RANGE (received_on);
CREATE TABLE event_bodies_default PARTITION OF event_bodies DEFAULT;

-- Unfinished events only. A fresh row is due for the sweeper five minutes
-- after receipt, so that publishing it needs no second write.
CREATE TABLE event_work (
  event_id    bigint NOT NULL,
  state       text NOT NULL DEFAULT 'pending',
  turn        integer NOT NULL DEFAULT 1,                 -- grows when a settled event is revived
  attempts    integer NOT NULL DEFAULT 0,                 -- failures of processing
  parks       integer NOT NULL DEFAULT 0,                 -- times it was parked for the same reason
  sweeps      integer NOT NULL DEFAULT 0,                 -- times the sweeper published it again
  next_at     timestamptz NOT NULL DEFAULT now() + interval '5 minutes',
  since       timestamptz NOT NULL DEFAULT now(),         -- when it was received, revived or first parked
  reason      text,                                       -- why it is parked
  reason_since timestamptz,                               -- since when it is parked for that
  last_error  text,
  waiting_for text,                                       -- "<provider>/<account>/<payment>" while parked
  CONSTRAINT event_work_pkey PRIMARY KEY (event_id),
  CONSTRAINT event_work_state CHECK (state IN ('pending', 'parked')),
  CONSTRAINT event_work_parked_has_reason CHECK (state <> 'parked' OR reason IS NOT NULL)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
CREATE INDEX event_work_next ON event_work (next_at, event_id);
-- What processors look for every second; fresh pending rows are not in it.
CREATE INDEX event_work_due ON event_work (next_at, event_id) WHERE state = 'parked' OR attempts > 0;
CREATE INDEX event_work_waiting ON event_work (waiting_for) WHERE waiting_for IS NOT NULL;

-- One row a turn: an event that was revived keeps its older result.
CREATE TABLE event_results (
  event_id bigint NOT NULL,
  at       timestamptz NOT NULL DEFAULT now(),
  turn     integer NOT NULL DEFAULT 1,
  attempts integer NOT NULL DEFAULT 0,
  status   text NOT NULL,
  outcome  text,
  reason   text,
  CONSTRAINT event_results_pkey PRIMARY KEY (event_id, turn),
  CONSTRAINT event_results_status CHECK (status IN ('processed', 'ignored', 'quarantined', 'dead')),
  CONSTRAINT event_results_outcome CHECK ((status = 'processed') = (outcome IS NOT NULL)
    AND (outcome IS NULL OR outcome IN ('applied', 'repeated', 'stale'))),
  CONSTRAINT event_results_has_reason CHECK (status = 'processed' OR reason IS NOT NULL)
);

-- What on-call looks for first; other results are not in it.
CREATE INDEX event_results_set_aside ON event_results (at) WHERE status IN ('dead', 'quarantined');

-- Only duplicates pay for this table.
CREATE TABLE event_redeliveries (
  event_id  bigint NOT NULL,
  count     bigint NOT NULL DEFAULT 0,
  last_at   timestamptz NOT NULL DEFAULT now(),
  differing bytea[] NOT NULL DEFAULT '{}',                -- SHA-256 of bodies that were not the first one, at most 16
  CONSTRAINT event_redeliveries_pkey PRIMARY KEY (event_id)
) WITH (fillfactor = 80);

-- A ring of the newest refused requests: bounded by construction, no bodies.
CREATE SEQUENCE rejected_deliveries_slot MINVALUE 0 MAXVALUE 9999 START 0 CYCLE CACHE 1;
CREATE TABLE rejected_deliveries (
  slot     integer NOT NULL,
  at       timestamptz NOT NULL DEFAULT now(),
  provider text NOT NULL,
  account  text NOT NULL,
  reason   text NOT NULL,
  detail   text,                                          -- never a secret, a body or an address
  CONSTRAINT rejected_deliveries_pkey PRIMARY KEY (slot)
);
CREATE INDEX rejected_deliveries_at ON rejected_deliveries (at);

-- Days are UTC. A day whose rows already went to the DEFAULT partition stays
-- there; the caller is told how many partitions were made. A partition can be
-- made by the table's owner alone, and the sweeper is not that: the function
-- runs with its owner's rights. A table of its own is made first and attached
-- then, since that does not lock out inserts; when somebody reads the table
-- for long, the day is left to the next sweep.
CREATE FUNCTION ensure_body_partitions(first_day date, days integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '500ms' AS $$
DECLARE
  d date;
  name text;
  made integer := 0;
BEGIN
  FOR i IN 0 .. days - 1 LOOP
    d := first_day + i;
    name := 'event_bodies_' || to_char(d, 'YYYYMMDD');
    IF to_regclass(name) IS NULL THEN
      BEGIN
        EXECUTE format('CREATE TABLE %I (LIKE event_bodies INCLUDING DEFAULTS)', name);
        EXECUTE format('ALTER TABLE event_bodies ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, d, d + 1);
        made := made + 1;
      EXCEPTION
        WHEN check_violation OR duplicate_table OR lock_not_available THEN NULL;
      END;
    END IF;
  END LOOP;
  RETURN made;
END $$;

-- Drops the oldest partition of a day before the given one, and returns its
-- day; NULL when there is none, or when it cannot be had soon: a drop needs
-- the parent for a moment. One a call, so that each is a transaction of its
-- own. Days that an unfinished event needs stay, and so do the last four,
-- whatever the caller asks.
CREATE FUNCTION drop_body_partition(before date) RETURNS date
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '500ms' AS $$
DECLARE
  oldest record;
BEGIN
  SELECT c.oid::regclass AS name, to_date(right(c.relname, 8), 'YYYYMMDD') AS day INTO oldest
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = 'event_bodies'::regclass AND c.relname ~ '^event_bodies_[0-9]{8}$'
  ORDER BY c.relname
  LIMIT 1;
  IF oldest.day IS NULL OR oldest.day >= first_day_of_needed_bodies(before) THEN
    RETURN NULL;
  END IF;
  EXECUTE format('DROP TABLE %s', oldest.name);
  RETURN oldest.day;
EXCEPTION
  WHEN lock_not_available THEN RETURN NULL;
END $$;

-- The first day whose bodies must stay.
CREATE FUNCTION first_day_of_needed_bodies(before date) RETURNS date
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
  SELECT LEAST(before, (now() AT TIME ZONE 'UTC')::date - 4,
    (SELECT min((e.received_at AT TIME ZONE 'UTC')::date) FROM event_work w JOIN events e ON e.id = w.event_id))
$$;

-- A body as text for people: NUL bytes and broken UTF-8 come out escaped.
CREATE FUNCTION body_as_text(body bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  RETURN convert_from(body, 'UTF8');
EXCEPTION
  WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN encode(body, 'escape');
END $$;

CREATE VIEW webhook_events AS
SELECT e.id, e.provider, e.account, e.dedupe_key, e.provider_event_id, e.type, e.payment_ref,
       e.test, e.occurred_at, e.received_at,
       COALESCE(w.state, r.status) AS status,
       CASE WHEN w.event_id IS NULL THEN r.outcome END AS outcome,
       CASE WHEN w.event_id IS NULL THEN r.reason ELSE w.reason END AS reason,
       COALESCE(w.attempts, r.attempts, 0) AS attempts,
       w.last_error, w.next_at,
       1 + COALESCE(d.count, 0) AS deliveries,
       CASE WHEN w.event_id IS NULL THEN r.at END AS processed_at,
       body_as_text(b.body) AS body
FROM events e
LEFT JOIN event_work w ON w.event_id = e.id
LEFT JOIN LATERAL (
  SELECT * FROM event_results x WHERE x.event_id = e.id ORDER BY x.turn DESC LIMIT 1
) r ON true
LEFT JOIN event_redeliveries d ON d.event_id = e.id
LEFT JOIN event_bodies b ON b.event_id = e.id AND b.received_on = (e.received_at AT TIME ZONE 'UTC')::date;

-- What a person should look at, newest first and quickly, however many events
-- are stored: those whose last turn ended as dead or quarantined.
CREATE VIEW set_aside_events AS
SELECT r.event_id AS id, e.provider, e.account, e.type, e.payment_ref, r.status, r.reason, r.attempts, r.at, e.received_at
FROM event_results r
JOIN events e ON e.id = r.event_id
WHERE r.status IN ('dead', 'quarantined')
  AND NOT EXISTS (SELECT FROM event_results l WHERE l.event_id = r.event_id AND l.turn > r.turn)
  AND NOT EXISTS (SELECT FROM event_work w WHERE w.event_id = r.event_id);

---- create above / drop below ----
-- Forward only: there is no way back.
