-- Lists for people that stay quick however many events are stored: an event by
-- the gateway's id of it, and what is unfinished.
-- Cost on a large database: one pass over events for the index, with a lock
-- that stops ingest meanwhile; at 10 million events about half a minute, so
-- choose a quiet hour: gateways send again what they were answered 503 for.

CREATE INDEX events_by_provider_event_id ON events (provider_event_id, id) WHERE provider_event_id IS NOT NULL;

-- What waits, and why. webhook_events shows the same rows among all others;
-- asked for a status, it has to look at every event.
CREATE VIEW unfinished_events AS
SELECT w.event_id AS id, e.provider, e.account, e.type, e.payment_ref, e.provider_event_id, w.state AS status, w.reason,
       w.attempts, w.last_error, w.next_at, w.since, w.sweeps, e.received_at
FROM event_work w
JOIN events e ON e.id = w.event_id;

DO $$
DECLARE
  r text;
BEGIN
  FOREACH r IN ARRAY ARRAY['umavez_app', 'umavez_sweeper'] LOOP
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = r) THEN
      EXECUTE format('GRANT SELECT ON unfinished_events TO %I', r);
    END IF;
  END LOOP;
END $$;

---- create above / drop below ----
-- Forward only: there is no way back.
