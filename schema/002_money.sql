-- Payments, their history, the ledger and the outbox. All of it is written by
-- one transaction of the processor, under the payment's lock.
-- Cost on a large database: none, the tables are new.

CREATE TABLE payments (
  id           bigint GENERATED ALWAYS AS IDENTITY,
  created_at   timestamptz NOT NULL DEFAULT now(),
  updated_at   timestamptz NOT NULL DEFAULT now(),
  status_at    timestamptz,                     -- gateway time of the status before capture
  paid_at      timestamptz,                     -- gateway time of the newest capture fact
  observed_at  timestamptz,                     -- database clock of the newest lookup applied
  version      bigint NOT NULL DEFAULT 0,       -- seq of the last transition
  expected     bigint,                          -- amounts in minor units of the currency
  captured     bigint,
  refunded     bigint NOT NULL DEFAULT 0,
  charged_back bigint NOT NULL DEFAULT 0,
  fee          bigint NOT NULL DEFAULT 0,
  net          bigint GENERATED ALWAYS AS (COALESCE(captured, 0) - refunded - charged_back - fee) STORED,
  provider     text NOT NULL,
  account      text NOT NULL,
  gateway_id   text NOT NULL,
  status       text NOT NULL DEFAULT 'pending',
  currency     text,
  beneficiary  text,                            -- whose account its money is booked on
  reference    text,                            -- your order id
  details      jsonb NOT NULL DEFAULT '{}',     -- refunds, disputes and fees by id; private
  CONSTRAINT payments_pkey PRIMARY KEY (id),
  CONSTRAINT payments_once UNIQUE (provider, account, gateway_id),
  CONSTRAINT payments_status CHECK (status IN ('pending', 'authorized', 'paid', 'partially_refunded', 'refunded',
    'failed', 'canceled', 'expired', 'disputed', 'charged_back')),
  CONSTRAINT payments_amounts CHECK (refunded >= 0 AND charged_back >= 0 AND fee >= 0
    AND (captured IS NULL OR captured > 0) AND refunded + charged_back <= COALESCE(captured, 0)),
  CONSTRAINT payments_captured_has_currency CHECK (captured IS NULL OR currency IS NOT NULL)
) WITH (fillfactor = 80);

-- What reconciliation asks about; settled payments are not in it.
CREATE INDEX payments_unsettled ON payments (id) WHERE status IN ('pending', 'authorized', 'disputed');

-- What the application told us of a payment, before or after its first event.
CREATE TABLE payment_registrations (
  provider      text NOT NULL,
  account       text NOT NULL,
  gateway_id    text NOT NULL,
  registered_at timestamptz NOT NULL DEFAULT now(),
  expected      bigint,
  currency      text,
  beneficiary   text,
  reference     text,
  CONSTRAINT payment_registrations_pkey PRIMARY KEY (provider, account, gateway_id),
  CONSTRAINT payment_registrations_amount CHECK (expected IS NULL OR (expected > 0 AND currency IS NOT NULL)),
  CONSTRAINT payment_registrations_named CHECK (gateway_id <> '' AND provider <> '' AND account <> ''),
  CONSTRAINT payment_registrations_currency CHECK (currency ~ '^[A-Z]{3}$')
);

CREATE TABLE payment_transitions (
  payment_id  bigint NOT NULL,
  seq         bigint NOT NULL,
  at          timestamptz NOT NULL DEFAULT now(),
  event_id    bigint NOT NULL,
  from_status text,                             -- NULL: first heard of
  to_status   text NOT NULL,
  reason      text NOT NULL,
  CONSTRAINT payment_transitions_pkey PRIMARY KEY (payment_id, seq),
  CONSTRAINT payment_transitions_payment FOREIGN KEY (payment_id) REFERENCES payments (id),
  CONSTRAINT payment_transitions_seq CHECK (seq > 0)
);
CREATE INDEX payment_transitions_event ON payment_transitions (event_id);

CREATE TABLE ledger_accounts (
  name       text NOT NULL,
  kind       text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT ledger_accounts_pkey PRIMARY KEY (name),
  CONSTRAINT ledger_accounts_kind CHECK (kind IN ('gateway', 'beneficiary', 'fees', 'unallocated'))
);

-- One row is one posting: it debits one account and credits another, so the
-- ledger balances by construction. The accounts are no foreign keys: every
-- entry would lock the row of the same few gateway accounts, which costs a
-- tenth of the whole transaction and makes processors share those locks. The
-- transaction that writes an entry writes its accounts first, and verify
-- counts entries without one.
CREATE TABLE ledger_entries (
  id             bigint GENERATED ALWAYS AS IDENTITY,
  at             timestamptz NOT NULL DEFAULT now(),
  payment_id     bigint NOT NULL,
  transition_seq bigint NOT NULL,
  amount         bigint NOT NULL,
  currency       text NOT NULL,
  kind           text NOT NULL,
  debit_account  text NOT NULL,
  credit_account text NOT NULL,
  reference_type text NOT NULL,
  reference_id   text NOT NULL,
  CONSTRAINT ledger_entries_pkey PRIMARY KEY (id),
  CONSTRAINT ledger_entries_once UNIQUE (reference_type, reference_id, kind),
  CONSTRAINT ledger_entries_transition FOREIGN KEY (payment_id, transition_seq) REFERENCES payment_transitions (payment_id, seq),
  CONSTRAINT ledger_entries_amount CHECK (amount > 0),
  CONSTRAINT ledger_entries_two_accounts CHECK (debit_account <> credit_account),
  CONSTRAINT ledger_entries_kind CHECK (kind IN ('capture', 'fee', 'refund', 'refund_reversal', 'chargeback',
    'chargeback_reversal', 'allocation'))
);
CREATE INDEX ledger_entries_payment ON ledger_entries (payment_id);
-- At most one capture a payment, whatever its reference.
CREATE UNIQUE INDEX ledger_entries_one_capture ON ledger_entries (payment_id) WHERE kind = 'capture';

CREATE FUNCTION ledger_is_immutable() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'ledger entries are immutable; book a reversal instead' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER ledger_entries_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries
  FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_immutable();

-- Kept balances, of beneficiaries only: the shared accounts would be hot rows.
CREATE TABLE ledger_balances (
  account    text NOT NULL,
  currency   text NOT NULL,
  balance    bigint NOT NULL,                   -- credits less debits: what we owe the owner
  updated_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT ledger_balances_pkey PRIMARY KEY (account, currency),
  CONSTRAINT ledger_balances_account FOREIGN KEY (account) REFERENCES ledger_accounts (name)
) WITH (fillfactor = 50);

-- One domain event a transition, relayed in the order of id; within a payment
-- that is the order of its commits, because ids are taken under its lock.
CREATE TABLE outbox (
  id         bigint GENERATED ALWAYS AS IDENTITY,
  created_at timestamptz NOT NULL DEFAULT now(),
  relayed_at timestamptz,
  payment_id bigint NOT NULL,
  seq        bigint NOT NULL,
  subject    text NOT NULL,
  payload    jsonb NOT NULL,
  CONSTRAINT outbox_pkey PRIMARY KEY (id)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX outbox_unrelayed ON outbox (id) WHERE relayed_at IS NULL;
CREATE UNIQUE INDEX outbox_transition ON outbox (payment_id, seq);

-- The application says what a payment should be and whose it is. It may come
-- before or after the payment's first event; saying it again fills only what
-- was not said before. An event of our own wakes whatever waits for it.
CREATE FUNCTION register_payment(
  p_provider text, p_account text, p_gateway_id text,
  p_expected bigint DEFAULT NULL, p_currency text DEFAULT NULL,
  p_beneficiary text DEFAULT NULL, p_reference text DEFAULT NULL
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
  new_event bigint;
BEGIN
  IF COALESCE(p_provider, '') = '' OR COALESCE(p_account, '') = '' OR COALESCE(p_gateway_id, '') = '' THEN
    RAISE EXCEPTION 'register_payment: p_provider, p_account and p_gateway_id must not be empty' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  -- What an earlier call said counts for this one.
  p_currency := COALESCE((SELECT r.currency FROM payment_registrations r
    WHERE r.provider = p_provider AND r.account = p_account AND r.gateway_id = p_gateway_id), p_currency);
  IF p_currency !~ '^[A-Z]{3}$' THEN
    RAISE EXCEPTION 'register_payment: p_currency must be an ISO 4217 code in upper case, such as BRL' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF p_expected <= 0 OR (p_expected IS NOT NULL AND p_currency IS NULL) THEN
    RAISE EXCEPTION 'register_payment: p_expected must be above zero, in minor units, and needs p_currency' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  INSERT INTO payment_registrations AS r (provider, account, gateway_id, expected, currency, beneficiary, reference)
  VALUES (p_provider, p_account, p_gateway_id, p_expected, p_currency, p_beneficiary, p_reference)
  ON CONFLICT (provider, account, gateway_id) DO UPDATE
  SET expected = COALESCE(r.expected, EXCLUDED.expected), currency = COALESCE(r.currency, EXCLUDED.currency),
      beneficiary = COALESCE(r.beneficiary, EXCLUDED.beneficiary), reference = COALESCE(r.reference, EXCLUDED.reference);

  INSERT INTO events (provider, account, dedupe_key, type, payment_ref, secret, body_sha256)
  VALUES (p_provider, p_account, 'umavez/registered/' || gen_random_uuid(), 'umavez.registered', p_gateway_id,
          'application', sha256(''::bytea))
  RETURNING id INTO new_event;
  INSERT INTO event_work (event_id, state, reason, next_at, waiting_for)
  VALUES (new_event, 'parked', 'registered', now(), p_provider || '/' || p_account || '/' || p_gateway_id);

  UPDATE event_work SET next_at = now()
  WHERE waiting_for = p_provider || '/' || p_account || '/' || p_gateway_id AND state = 'parked';
END $$;

---- create above / drop below ----
-- Forward only: there is no way back.
