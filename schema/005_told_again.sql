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
