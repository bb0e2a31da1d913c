package postgres

// checks are the invariants of the design, as queries that find what breaks
// them. The order and the numbers are those of docs/guarantees.md.
var checks = []Check{
	{1, "every stored body is the body that was received", `
SELECT 'event ' || e.id AS subject, 'the stored bytes have another SHA-256 than the bytes received' AS detail
FROM events e
JOIN event_bodies b ON b.event_id = e.id AND b.received_on = (e.received_at AT TIME ZONE 'UTC')::date
WHERE sha256(b.body) <> e.body_sha256`},

	{1, "every event within the retention has its body", `
SELECT 'event ' || e.id AS subject, 'has no body although it is within the retention' AS detail
FROM given, events e
LEFT JOIN event_bodies b ON b.event_id = e.id AND b.received_on = (e.received_at AT TIME ZONE 'UTC')::date
WHERE b.event_id IS NULL AND e.type NOT LIKE 'umavez.%' AND e.received_at > now() - given.bodies_since`},

	{1, "every event is either unfinished or has a result of its last turn", `
SELECT 'event ' || e.id AS subject,
       CASE WHEN w.event_id IS NULL THEN 'has neither work nor a result' ELSE 'has a result of the turn that is still unfinished' END AS detail
FROM events e
LEFT JOIN event_work w ON w.event_id = e.id
LEFT JOIN LATERAL (SELECT max(turn) AS turn FROM event_results r WHERE r.event_id = e.id) r ON true
WHERE (w.event_id IS NULL AND r.turn IS NULL) OR (w.event_id IS NOT NULL AND r.turn >= w.turn)`},

	{1, "nothing is unfinished or settled that was never received", `
SELECT 'event ' || x.event_id AS subject, 'has a row in ' || x.place || ' and none in events' AS detail
FROM (SELECT event_id, 'event_work' AS place FROM event_work UNION ALL SELECT event_id, 'event_results' FROM event_results) x
LEFT JOIN events e ON e.id = x.event_id
WHERE e.id IS NULL`},

	{2, "one entry for each reference and kind", `
SELECT reference_type || ' ' || reference_id AS subject, count(*) || ' entries of kind ' || kind AS detail
FROM ledger_entries GROUP BY reference_type, reference_id, kind HAVING count(*) > 1`},

	{2, "at most one capture for each payment", `
SELECT 'payment ' || payment_id AS subject, count(*) || ' captures' AS detail
FROM ledger_entries WHERE kind = 'capture' GROUP BY payment_id HAVING count(*) > 1`},

	{3, "transitions follow each other without gaps", `
SELECT 'payment ' || payment_id AS subject, 'transition ' || seq || ' starts at ' || COALESCE(from_status, 'nothing') ||
       ', the one before it ended at ' || COALESCE(before_status, 'nothing') AS detail
FROM (
  SELECT payment_id, seq, from_status,
         lag(to_status) OVER w AS before_status, row_number() OVER w AS place
  FROM payment_transitions WINDOW w AS (PARTITION BY payment_id ORDER BY seq)
) t
WHERE seq <> place OR (place > 1 AND from_status IS DISTINCT FROM before_status) OR (place = 1 AND from_status IS NOT NULL)`},

	{3, "every transition is a legal move", `
SELECT 'payment ' || t.payment_id AS subject, 'transition ' || t.seq || ' from ' || COALESCE(t.from_status, 'nothing') || ' to ' || t.to_status AS detail
FROM payment_transitions t
WHERE NOT EXISTS (SELECT FROM moves m WHERE m.from_status IS NOT DISTINCT FROM t.from_status AND m.to_status = t.to_status)`},

	{3, "a payment stands where its last transition ended", `
SELECT 'payment ' || p.id AS subject, 'status ' || p.status || ', version ' || p.version || '; last transition ' ||
       COALESCE(t.seq::text, 'none') || ' ended at ' || COALESCE(t.to_status, 'nothing') AS detail
FROM payments p
LEFT JOIN LATERAL (SELECT seq, to_status FROM payment_transitions x WHERE x.payment_id = p.id ORDER BY seq DESC LIMIT 1) t ON true
WHERE p.version <> COALESCE(t.seq, 0) OR p.status <> COALESCE(t.to_status, 'pending')`},

	{4, "a payment's amounts are the sums of its entries", `
SELECT 'payment ' || p.id AS subject, 'row: captured ' || COALESCE(p.captured, 0) || ', refunded ' || p.refunded || ', charged back ' || p.charged_back ||
       ', fee ' || p.fee || '; ledger: ' || s.captured || ', ' || s.refunded || ', ' || s.charged_back || ', ' || s.fee AS detail
FROM payments p
LEFT JOIN LATERAL (
  SELECT COALESCE(sum(amount) FILTER (WHERE kind = 'capture'), 0) AS captured,
         COALESCE(sum(amount) FILTER (WHERE kind = 'refund'), 0) - COALESCE(sum(amount) FILTER (WHERE kind = 'refund_reversal'), 0) AS refunded,
         COALESCE(sum(amount) FILTER (WHERE kind = 'chargeback'), 0) - COALESCE(sum(amount) FILTER (WHERE kind = 'chargeback_reversal'), 0) AS charged_back,
         COALESCE(sum(amount) FILTER (WHERE kind = 'fee'), 0) AS fee
  FROM ledger_entries l WHERE l.payment_id = p.id
) s ON true
WHERE (COALESCE(p.captured, 0), p.refunded, p.charged_back, p.fee) IS DISTINCT FROM (s.captured, s.refunded, s.charged_back, s.fee)`},

	{4, "every entry touches the accounts that its kind and its payment say", `
SELECT 'entry ' || l.id AS subject, l.kind || ' of ' || l.amount || ' debits ' || l.debit_account || ' and credits ' || l.credit_account AS detail
FROM ledger_entries l
JOIN payments p ON p.id = l.payment_id
WHERE NOT CASE
  WHEN l.kind IN ('capture', 'refund_reversal', 'chargeback_reversal')
    THEN l.debit_account = 'gateway:' || p.provider || ':' || p.account
     AND l.credit_account IN ('unallocated:' || p.provider, 'beneficiary:' || COALESCE(p.beneficiary, ''))
  WHEN l.kind IN ('refund', 'chargeback')
    THEN l.credit_account = 'gateway:' || p.provider || ':' || p.account
     AND l.debit_account IN ('unallocated:' || p.provider, 'beneficiary:' || COALESCE(p.beneficiary, ''))
  WHEN l.kind = 'fee'
    THEN l.credit_account = 'fees:' || p.provider
     AND l.debit_account IN ('unallocated:' || p.provider, 'beneficiary:' || COALESCE(p.beneficiary, ''))
  ELSE 'unallocated:' || p.provider IN (l.debit_account, l.credit_account)
     AND 'beneficiary:' || COALESCE(p.beneficiary, '') IN (l.debit_account, l.credit_account)
  END
  OR l.currency IS DISTINCT FROM p.currency
  OR l.reference_id NOT LIKE replace(p.provider, '_', '\_') || '/' || replace(p.account, '_', '\_') || '/%'`},

	{4, "no money of a payment with an owner is left unallocated", `
SELECT 'payment ' || p.id AS subject, 'has an owner and ' || s.left_over || ' on the unallocated account' AS detail
FROM payments p
JOIN LATERAL (
  SELECT COALESCE(sum(CASE WHEN credit_account LIKE 'unallocated:%' THEN amount ELSE 0 END
                    - CASE WHEN debit_account LIKE 'unallocated:%' THEN amount ELSE 0 END), 0) AS left_over
  FROM ledger_entries l WHERE l.payment_id = p.id
) s ON true
WHERE p.beneficiary IS NOT NULL AND s.left_over <> 0`},

	{4, "captured money goes to the owner that was registered", `
SELECT 'payment ' || p.id AS subject, 'is captured and has no owner, although ' || r.beneficiary || ' was registered' AS detail
FROM payment_registrations r
JOIN payments p USING (provider, account, gateway_id)
WHERE r.beneficiary IS NOT NULL AND p.beneficiary IS NULL AND p.captured IS NOT NULL
  AND COALESCE(r.currency, p.currency) = p.currency AND COALESCE(r.expected, p.captured) = p.captured
  AND NOT EXISTS (SELECT FROM event_work w WHERE w.waiting_for = p.provider || '/' || p.account || '/' || p.gateway_id)`},

	{4, "the sum over all accounts is zero", `
SELECT 'currency ' || currency AS subject, 'credits less debits are ' || sum(side) AS detail
FROM (
  SELECT currency, amount AS side FROM ledger_entries JOIN ledger_accounts ON name = credit_account
  UNION ALL
  SELECT currency, -amount FROM ledger_entries JOIN ledger_accounts ON name = debit_account
) s
GROUP BY currency HAVING sum(side) <> 0`},

	{4, "kept balances equal the sums of the entries", `
SELECT COALESCE(b.account, s.account) || ' ' || COALESCE(b.currency, s.currency) AS subject,
       'kept ' || COALESCE(b.balance, 0) || ', entries say ' || COALESCE(s.balance, 0) AS detail
FROM ledger_balances b
FULL JOIN (
  SELECT account, currency, sum(side) AS balance FROM (
    SELECT credit_account AS account, currency, amount AS side FROM ledger_entries
    UNION ALL
    SELECT debit_account, currency, -amount FROM ledger_entries
  ) x WHERE account LIKE 'beneficiary:%' GROUP BY account, currency
) s ON s.account = b.account AND s.currency = b.currency
WHERE COALESCE(b.balance, 0) <> COALESCE(s.balance, 0)`},

	{5, "refunds and chargebacks do not exceed what was captured", `
SELECT 'payment ' || id AS subject, 'captured ' || COALESCE(captured, 0) || ', refunded ' || refunded || ', charged back ' || charged_back AS detail
FROM payments WHERE refunded + charged_back > COALESCE(captured, 0)`},

	{6, "an event is applied if and only if it caused a transition", `
SELECT 'event ' || COALESCE(r.event_id, t.event_id) AS subject,
       CASE WHEN t.event_id IS NULL THEN 'is called applied and caused no transition'
            ELSE 'caused a transition and is called ' || COALESCE(r.outcome, r.status, 'unfinished') END AS detail
FROM (SELECT event_id, min(status) AS status, max(outcome) FILTER (WHERE outcome = 'applied') AS applied, max(outcome) AS outcome
      FROM event_results GROUP BY event_id) r
FULL JOIN (SELECT DISTINCT event_id FROM payment_transitions
           WHERE event_id IN (SELECT id FROM events)) t ON t.event_id = r.event_id -- others are forgotten, see KEY_RETENTION
WHERE (r.applied IS NOT NULL) <> (t.event_id IS NOT NULL)`},

	{7, "nothing stays pending beyond the limit", `
SELECT 'event ' || e.id AS subject, 'pending since ' || w.since || ', ' || w.attempts || ' attempts, swept ' || w.sweeps || ' times' AS detail
FROM given, event_work w JOIN events e ON e.id = w.event_id
WHERE w.state = 'pending' AND w.since < now() - given.pending_limit`},

	{7, "every parked, quarantined and dead event has a reason", `
SELECT 'event ' || event_id AS subject, state || ' without a reason' AS detail
FROM event_work WHERE state = 'parked' AND COALESCE(reason, '') = ''
UNION ALL
SELECT 'event ' || event_id, status || ' without a reason'
FROM event_results WHERE status IN ('quarantined', 'dead', 'ignored') AND COALESCE(reason, '') = ''`},

	{8, "every transition has its domain event", `
SELECT 'payment ' || COALESCE(t.payment_id, o.payment_id) AS subject,
       CASE WHEN o.payment_id IS NULL THEN 'transition ' || t.seq || ' has no domain event'
            ELSE 'domain event ' || o.id || ' has no transition' END AS detail
FROM payment_transitions t
FULL JOIN outbox o ON o.payment_id = t.payment_id AND o.seq = t.seq
WHERE o.payment_id IS NULL OR t.payment_id IS NULL`},

	{8, "domain events are relayed within the limit", `
SELECT 'domain event ' || o.id AS subject, 'of payment ' || o.payment_id || ' waits since ' || o.created_at AS detail
FROM given, outbox o WHERE o.relayed_at IS NULL AND o.created_at < now() - given.pending_limit`},

	{8, "domain events of a payment are in the order of its transitions, and relayed in it", `
SELECT 'payment ' || payment_id AS subject, 'domain event ' || seq || CASE WHEN out_of_order THEN ' was entered' ELSE ' was relayed' END || ' before an earlier one' AS detail
FROM (
  SELECT payment_id, seq, id < lag(id) OVER w AS out_of_order,
         relayed_at IS NOT NULL AND lag(relayed_at IS NULL) OVER w AS overtook
  FROM outbox WINDOW w AS (PARTITION BY payment_id ORDER BY seq)
) o
WHERE out_of_order OR overtook`},

	{9, "a payment's status is what its money says", `
SELECT 'payment ' || id AS subject, 'status ' || status || ' with captured ' || COALESCE(captured::text, 'unknown') || ', refunded ' || refunded ||
       ', charged back ' || charged_back AS detail
FROM payments
WHERE NOT CASE status
  WHEN 'paid' THEN captured IS NOT NULL AND refunded = 0 AND charged_back = 0
  WHEN 'partially_refunded' THEN refunded > 0 AND refunded < captured AND charged_back = 0
  WHEN 'refunded' THEN refunded = captured AND charged_back = 0
  WHEN 'disputed' THEN charged_back > 0 OR captured IS NOT NULL AND details @> '{"disputes": [{"state": "claim"}]}'
  WHEN 'charged_back' THEN charged_back > 0
  WHEN 'pending' THEN captured IS NULL OR refunded > 0
  ELSE captured IS NULL OR refunded = captured -- an undone receipt falls back to the status before it
  END`},
}
