package queue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/queue/queuetest"
)

var hostile = []string{
	"a.b", "*", ">", "a b", "a\x00b", "évt", "pagamento/ç", "evt_a&b=c", "\r\nPUB x 0\r\n", "..", ".", strings.Repeat("x", 65),
	"$JS.API.STREAM.DELETE.WEBHOOKS", "\u202e", "💸", "a\tb", "'; DROP TABLE payments", "%2e", "",
}

func TestNoPaymentIDCanAddATokenOrAWildcard(t *testing.T) {
	t.Parallel()
	for _, ref := range hostile {
		n := event.Notice{ID: 7, Provider: "asaas", Account: "default", PaymentRef: ref}
		s := queue.Subject(n)
		if strings.Count(s, ".") != 4 || strings.ContainsAny(s, "*> \t\r\n\x00") {
			t.Errorf("%q gives subject %q", ref, s)
		}
		at, err := queue.ParseSubject(s)
		if err != nil || at.EventID != 7 || at.Provider != "asaas" || at.Account != "default" || at.PaymentToken != event.PaymentToken(ref) {
			t.Errorf("%q is read back as %+v, %v", s, at, err)
		}
	}
}

func TestHostileNamesCannotAddTokensEither(t *testing.T) {
	t.Parallel()
	for _, name := range hostile {
		s := queue.Subject(event.Notice{ID: 1, Provider: name, Account: name})
		if _, err := queue.ParseSubject(s); err != nil {
			t.Errorf("%q gives subject %q: %v", name, s, err)
		}
	}
}

func TestHostilePaymentIDsTravelThroughARealStream(t *testing.T) {
	t.Parallel()
	conn := queuetest.New(t)
	k := consumer(t, conn, queue.ConsumerConfig{})
	var all []event.Notice
	for i, ref := range hostile {
		all = append(all, event.Notice{ID: int64(i + 1), Provider: "asaas", Account: "default", PaymentRef: ref})
	}
	mustStore(t, conn, all...)
	seen := map[int64]bool{}
	for len(seen) < len(all) {
		got, err := k.Fetch(t.Context(), 100, time.Second)
		if err != nil || len(got) == 0 {
			t.Fatalf("%d of %d seen, %v", len(seen), len(all), err)
		}
		for _, d := range got {
			seen[d.EventID] = true
		}
	}
}

func TestSubjectsOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "webhooks", "webhooks.", "webhooks.a.b.c", "webhooks.a.b.c.0", "webhooks.a.b.c.-1", "webhooks.a.b.c.+1", "webhooks.a.b.c.01",
		"webhooks.a.b.c.9223372036854775808", "webhooks.a..c.1", "webhooks.a.b.c.1.2", "payments.a.b.c.1", "webhooks.a.b*.c.1", "webhooks.ü.b.c.1",
	} {
		if at, err := queue.ParseSubject(s); err == nil {
			t.Errorf("%q is read as %+v", s, at)
		}
	}
}

func FuzzSubjectIsReadBack(f *testing.F) {
	for _, s := range hostile {
		f.Add(s, s, int64(1))
	}
	f.Fuzz(func(t *testing.T, name, ref string, id int64) {
		if id <= 0 {
			return
		}
		s := queue.Subject(event.Notice{ID: id, Provider: name, Account: name, PaymentRef: ref})
		if at, err := queue.ParseSubject(s); err != nil || at.EventID != id {
			t.Errorf("%q: %+v, %v", s, at, err)
		}
	})
}
