package gatewaysim_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v84/webhook"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

func decode(t *testing.T, body []byte) map[string]any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return m
}

// at follows a path of names; nil when it leads nowhere.
func at(v any, path string) (any, bool) {
	for name := range strings.SplitSeq(path, ".") {
		switch w := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = w[name]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(w) {
				return nil, false
			}
			v = w[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// fields are the names that the contracts' examples have, by event type.
var fields = map[string]string{
	"payment_intent.succeeded": "id object api_version created livemode pending_webhooks request.id request.idempotency_key type " +
		"data.object.id data.object.object data.object.amount data.object.amount_capturable data.object.amount_received " +
		"data.object.currency data.object.capture_method data.object.cancellation_reason data.object.canceled_at data.object.created " +
		"data.object.latest_charge data.object.last_payment_error data.object.livemode data.object.metadata.order_id data.object.status",
	"charge.updated": "data.object.amount_captured data.object.amount_refunded data.object.balance_transaction data.object.captured " +
		"data.object.disputed data.object.paid data.object.payment_intent data.object.refunded data.object.status " +
		"data.previous_attributes.balance_transaction",
	"payment_intent.payment_failed": "data.object.last_payment_error.code data.object.last_payment_error.charge data.object.latest_charge",
	"payment_intent.canceled":       "data.object.cancellation_reason data.object.canceled_at",
	"refund.created": "data.object.id data.object.amount data.object.balance_transaction data.object.charge data.object.created " +
		"data.object.currency data.object.failure_balance_transaction data.object.failure_reason data.object.payment_intent " +
		"data.object.reason data.object.status",
	"charge.refunded": "data.object.amount_refunded data.object.refunded data.previous_attributes.amount_refunded",
	"charge.dispute.funds_withdrawn": "data.object.id data.object.amount data.object.balance_transactions.0.id " +
		"data.object.balance_transactions.0.amount data.object.balance_transactions.0.currency data.object.balance_transactions.0.fee " +
		"data.object.balance_transactions.0.net data.object.balance_transactions.0.reporting_category " +
		"data.object.balance_transactions.0.type data.object.charge data.object.created data.object.currency " +
		"data.object.is_charge_refundable data.object.livemode data.object.payment_intent data.object.reason data.object.status",
	"PAYMENT_CONFIRMED": "id event dateCreated payment.object payment.id payment.dateCreated payment.customer payment.subscription " +
		"payment.installment payment.value payment.netValue payment.originalValue payment.interestValue payment.billingType payment.status " +
		"payment.externalReference payment.dueDate payment.originalDueDate payment.confirmedDate payment.paymentDate " +
		"payment.clientPaymentDate payment.creditDate payment.estimatedCreditDate payment.deleted payment.anticipated " +
		"payment.refunds payment.chargeback",
	"PAYMENT_PARTIALLY_REFUNDED": "payment.refunds.0.dateCreated payment.refunds.0.status payment.refunds.0.value " +
		"payment.refunds.0.description payment.refunds.0.transactionReceiptUrl",
	"PAYMENT_CHARGEBACK_REQUESTED": "payment.chargeback.status payment.chargeback.reason",
	"PAYMENT_DELETED":              "payment.deleted payment.status",
	"TRANSACTION_CREATED":          "event id creation_date data.transaction.id data.transaction.status",
	"TRANSACTION_PAID":             "event id creation_date data.transaction.id data.transaction.status",
	"TRANSACTION_ASK_REFUNDING":    "event id creation_date data.transaction.id data.transaction.status",
}

func TestBodiesHaveTheFieldsOfTheContracts(t *testing.T) {
	t.Parallel()
	s := newSim(t, gatewaysim.Config{Seed: 8, Payments: 500})
	seen := map[string]int{}
	all := s.Deliveries()
	for i := range all {
		body := all[i].Request(time.Now(), 0).Body
		m := decode(t, body)
		for path := range strings.FieldsSeq(fields[all[i].EventType]) {
			if _, ok := at(m, path); !ok {
				t.Errorf("%s has no %s: %s", all[i].EventType, path, body)
			}
		}
		if seen[all[i].EventType]++; all[i].Gateway == "asaas" {
			checkAsaas(t, m)
		}
	}
	for typ := range fields {
		if seen[typ] == 0 {
			t.Errorf("no event of type %s", typ)
		}
	}
	if len(seen) < 40 {
		t.Errorf("only %d event types occur", len(seen))
	}
}

var (
	asaasID   = regexp.MustCompile(`^evt_[0-9a-f]{32}&[0-9]+$`)
	asaasTime = regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$`)
	asaasReal = regexp.MustCompile(`^\d+(\.\d{1,2})?$`)
)

func checkAsaas(t *testing.T, m map[string]any) {
	t.Helper()
	value, _ := at(m, "payment.value")
	if !asaasID.MatchString(m["id"].(string)) || !asaasTime.MatchString(m["dateCreated"].(string)) || !asaasReal.MatchString(string(value.(json.Number))) {
		t.Errorf("id %v, dateCreated %v, value %v", m["id"], m["dateCreated"], value)
	}
	if deleted, _ := at(m, "payment.deleted"); deleted != (m["event"] == "PAYMENT_DELETED") {
		t.Errorf("%v: deleted is %v", m["event"], deleted)
	}
}

func TestAsaasAmountsAreSpeltInSeveralWaysAndExactly(t *testing.T) {
	t.Parallel()
	s := newSim(t, gatewaysim.Config{Seed: 8, Payments: 1500, Gateways: []string{"asaas"}})
	truth := s.Truth()
	lengths := map[int]int{} // digits behind the point
	all := s.Deliveries()
	for i := range all {
		if all[i].Step > 0 {
			continue
		}
		body := all[i].Request(time.Now(), 0).Body
		value, _ := at(decode(t, body), "payment.value")
		whole, part, _ := strings.Cut(string(value.(json.Number)), ".")
		lengths[len(part)]++
		cents, err := strconv.ParseInt(whole+(part + "00")[:2], 10, 64)
		if err != nil || cents != truth[all[i].Payment].Expected {
			t.Errorf("%v is not %d centavos", value, truth[all[i].Payment].Expected)
		}
	}
	if lengths[0] == 0 || lengths[1] == 0 || lengths[2] == 0 {
		t.Errorf("digits behind the point: %v; all of 0, 1 and 2 should occur", lengths)
	}
}

func TestTimesOfAPaymentsStepsAreASecondApart(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	s := newSim(t, gatewaysim.Config{Seed: 8, Payments: 500, Gateways: []string{"stripe", "asaas"}, Order: gatewaysim.OrderKeep})
	last := map[int]time.Time{}
	step := map[int]int{}
	all := s.Deliveries()
	for i := range all {
		d := &all[i]
		body := d.Request(time.Now(), 0).Body
		m := decode(t, body)
		var when time.Time
		if d.Gateway == "stripe" {
			n, _ := m["created"].(json.Number).Int64()
			when = time.Unix(n, 0)
		} else {
			when, _ = time.ParseInLocation("2006-01-02 15:04:05", m["dateCreated"].(string), time.FixedZone("", -3*3600))
		}
		if when.After(start) || when.Before(start.Add(-15*24*time.Hour)) {
			t.Errorf("%s is at %s, outside of the 15 days before %s", d.EventType, when, start)
		}
		if before, seen := last[d.Payment]; seen && d.Step != step[d.Payment] && when.Sub(before) < time.Second {
			t.Errorf("%s follows after %s", d.EventType, when.Sub(before))
		}
		last[d.Payment], step[d.Payment] = when, d.Step
	}
}

func TestStripeSignaturesAreAcceptedByStripesOwnLibrary(t *testing.T) {
	t.Parallel()
	old, current := "whsec_test_stripe_rotated_fedcba98", "whsec_test_stripe_0123456789abcdef"
	s := newSim(t, gatewaysim.Config{Seed: 8, Payments: 100, Gateways: []string{"stripe"},
		Credentials: map[string]gatewaysim.Credentials{"stripe": {WebhookSecrets: []string{old, current}}},
		Shares:      gatewaysim.Shares{WrongSignatures: .5}})
	options := webhook.ConstructEventOptions{Tolerance: 5 * time.Minute, IgnoreAPIVersionMismatch: true}
	all := s.Deliveries()
	for i := range all {
		d := &all[i]
		sent := d.Request(time.Now(), 0)
		header, body := sent.Header, sent.Body
		for _, secret := range []string{old, current} {
			e, err := webhook.ConstructEventWithOptions(body, header.Get("Stripe-Signature"), secret, options)
			switch {
			case d.Authentic() && err != nil:
				t.Fatalf("%s: %v", d.EventType, err)
			case d.Authentic() && (e.ID != d.EventID || string(e.Type) != d.EventType):
				t.Errorf("read %s %s, want %s %s", e.ID, e.Type, d.EventID, d.EventType)
			}
		}
		if !d.Authentic() && !fromTheFuture(t, header.Get("Stripe-Signature")) { // those the library lets pass
			if _, err := webhook.ConstructEventWithOptions(body, header.Get("Stripe-Signature"), current, options); err == nil {
				t.Errorf("a forged request is accepted: %v", header)
			}
		}
	}
}

func fromTheFuture(t *testing.T, signature string) bool {
	t.Helper()
	stamp, _, _ := strings.Cut(strings.TrimPrefix(signature, "t="), ",")
	n, _ := strconv.ParseInt(stamp, 10, 64)
	return time.Unix(n, 0).After(time.Now().Add(time.Minute))
}

func TestCredentialsAreThoseOfTheContracts(t *testing.T) {
	t.Parallel()
	s := newSim(t, gatewaysim.Config{Seed: 8, Payments: 100, Gateways: threeAndASecond})
	now := time.Now()
	all := s.Deliveries()
	for i := range all {
		d := &all[i]
		source := strings.TrimPrefix(d.Path, "/webhooks/")
		c, ok := s.Credentials(source)
		if !ok {
			t.Fatalf("no credentials of %s", source)
		}
		sent := d.Request(now, 0)
		header, body := sent.Header, sent.Body
		switch d.Gateway {
		case "stripe":
			mac := hmac.New(sha256.New, []byte(c.WebhookSecrets[0]))
			fmt.Fprintf(mac, "%d.%s", now.Unix(), body)
			want := fmt.Sprintf("t=%d,v1=%s", now.Unix(), hex.EncodeToString(mac.Sum(nil)))
			if got := header.Get("Stripe-Signature"); got != want {
				t.Errorf("signature %s, want %s", got, want)
			}
		case "asaas":
			if got := header.Get("asaas-access-token"); got != c.WebhookSecrets[0] || len(got) < 32 {
				t.Errorf("token %q", got)
			}
		case "pagpolar":
			if got := header.Get("Authorization"); got != "Bearer "+c.WebhookSecrets[0] {
				t.Errorf("authorization %q", got)
			}
		}
	}
}

// stripeStatus is how a receiver answers a signature: within five minutes on
// either side, made with the secret over the body.
func stripeStatus(secret, signature string, body []byte) int {
	stamp, rest, _ := strings.Cut(strings.TrimPrefix(signature, "t="), ",")
	n, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || time.Since(time.Unix(n, 0)).Abs() > 5*time.Minute {
		return 400
	}
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s.%s", stamp, body)
	if rest != "v1="+hex.EncodeToString(mac.Sum(nil)) {
		return 400
	}
	return 200
}
