-- (The same right is in 003, for administrators who run that by hand later.)
-- Ingest marks an unfinished event that its gateway has sent again, where the
-- repeat may mean something new. It still cannot touch what happened to money.
-- Cost on a large database: none.

DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'umavez_ingest') THEN
    GRANT UPDATE (turn, since, next_at, parks, state, reason, reason_since) ON event_work TO umavez_ingest;
  END IF;
END $$;

-- Revived events are due by themselves, like parked and failed ones. The table
-- holds unfinished events only, so the index is small.
DROP INDEX event_work_due;
CREATE INDEX event_work_due ON event_work (next_at, event_id) WHERE state = 'parked' OR attempts > 0 OR turn > 1;
