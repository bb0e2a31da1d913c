package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/postgres/postgrestest"
)

// Where bodies are not marked, the id of the payment may be.
func TestCase_D9_AnOrderMadeWithTestCredentialsReachesNoLedger(t *testing.T) {
	w := inWorld(t)
	for _, g := range []*gateway{&mercadopagoOrders, &mercadopagoGateway} {
		s := saleOf(&mercadopagoOrders, "ORDTST01D9"+strings.ToUpper(fmt.Sprint(len(g.String())))).paid()
		w.api.tells(&mercadopagoOrders, s)
		body := mercadopagoOrders.body(newHook("paid", "evt_"+s.id, s))
		w.take(g, body)
		if e := w.settledBody(g, body); e.Status != "ignored" || e.Reason != "test_event" || !e.Test {
			t.Errorf("%s: %v", g, e)
		}
		if n := queryOne[int](t, w.db, `SELECT count(*) FROM payments WHERE gateway_id = $1`, s.id); n != 0 {
			t.Errorf("%s: a test order is a payment", g)
		}
	}
}

// A test key among settings for production would book test money as real.
func TestCase_D9_TestKeysDoNotStartInProduction(t *testing.T) {
	env := worldSettings("http://127.0.0.1:1")
	maps.Copy(env, map[string]string{"DATABASE_URL": postgrestest.URL(t), "NATS_URL": "nats://127.0.0.1:1", "INGEST_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "off"})
	for name, change := range map[string]map[string]string{
		"ZOOP_API_KEY":        {"ZOOP_API_KEY": "zpk_test_canary0123456789"},
		"PAGARME_API_KEY":     {"PAGARME_API_KEY": "sk_test_canary0123456789", "PAGARME_API_BASE": ""},
		"MERCADOPAGO_API_KEY": {"MERCADOPAGO_API_KEY": "TEST-canary-0123456789", "MERCADOPAGO_API_BASE": ""},
	} {
		changed := maps.Clone(env)
		maps.Copy(changed, change)
		out, errs, code := run(t, "ingest", changed)
		if code != 2 || !strings.Contains(errs, name) || strings.Contains(out+errs, "canary") {
			t.Errorf("a test key in %s: code %d, %q; want 2 and a line about it without the key", name, code, tail(errs, 600))
		}
	}
}
