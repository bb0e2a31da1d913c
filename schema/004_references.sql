-- Payments by your order id: some gateways tell of a dispute by that alone.
-- Cost on a large database: one pass over payments and registrations for each
-- index, with a lock that stops writes to the table; at 20 million payments
-- well under a minute. The index does not hold up updates of a payment, whose
-- reference is set once.

CREATE INDEX payments_by_reference ON payments (provider, account, reference) WHERE reference IS NOT NULL;
CREATE INDEX payment_registrations_by_reference ON payment_registrations (provider, account, reference) WHERE reference IS NOT NULL;
