package pagarme_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

func lookups() []providertest.Lookup {
	row := func(word, more string, leads payment.Status, facts ...payment.Fact) providertest.Lookup {
		return providertest.Lookup{Name: strings.TrimSpace(word + " " + more), Ref: ref, Answer: sale(word, more), Status: leads, Facts: facts}
	}
	const was = `,"paid_amount":14990,"paid_at":"2026-01-15T12:00:04Z"`
	paid := status(payment.StatusPaid)
	all := payment.Fact{Kind: payment.FactStatus, Status: payment.StatusRefunded, Amount: payment.Of(14990)}
	goneOrCanceled := payment.Fact{Kind: payment.FactStatus, Status: payment.StatusRefunded, Otherwise: payment.StatusCanceled}
	tx := func(word string) string { return `,"last_transaction":{"status":"` + word + `"}` }
	rows := []providertest.Lookup{
		row("paid", was, payment.StatusPaid, paid),
		row("overpaid", `,"paid_amount":15290`, payment.StatusPaid, paid),
		row("underpaid", `,"paid_amount":14000`, payment.StatusPaid, paid),
		row("pending", "", payment.StatusPending, status(payment.StatusPending)),
		row("pending", `,"paid_amount":0`+tx("waiting_payment"), payment.StatusPending, status(payment.StatusPending)),
		row("pending", tx("authorized_pending_capture"), payment.StatusAuthorized, status(payment.StatusAuthorized)),
		row("pending", tx("waiting_capture"), payment.StatusAuthorized, status(payment.StatusAuthorized)),
		row("pending", `,"last_transaction":null`, payment.StatusPending, status(payment.StatusPending)),
		row("processing", "", payment.StatusPending, status(payment.StatusPending)),
		row("failed", tx("not_authorized"), payment.StatusFailed, status(payment.StatusFailed)),
		// After a refund the gateway still says paid (CASES B23).
		row("paid", was+`,"canceled_amount":4990`+tx("partial_refunded"), payment.StatusPartiallyRefunded, paid, total(4990)),
		row("paid", was+`,"canceled_amount":14990`, payment.StatusRefunded, paid, total(14990)),
		row("paid", `,"paid_amount":10000,"canceled_amount":4990`+tx("partial_void"), payment.StatusPaid, paid),
		row("paid", `,"paid_amount":10000,"canceled_amount":4990`+tx("captured"), payment.StatusPaid, paid), // what was voided never came in
		row("paid", was+`,"canceled_amount":0`, payment.StatusPaid, paid),
		row("canceled", was+`,"canceled_amount":14990`, payment.StatusRefunded, paid, status(payment.StatusRefunded)),
		row("canceled", `,"canceled_amount":14990`+tx("refunded"), payment.StatusRefunded, all),
		row("canceled", `,"canceled_amount":14990,"paid_at":"2026-01-15T12:00:04Z"`+tx("voided"), payment.StatusRefunded, all),
		row("canceled", `,"canceled_amount":14990`+tx("voided"), payment.StatusCanceled, goneOrCanceled),
		row("canceled", `,"canceled_amount":14990`, payment.StatusCanceled, goneOrCanceled),
		row("canceled", "", payment.StatusCanceled, goneOrCanceled),
		row("chargedback", was, payment.StatusChargedBack, paid, status(payment.StatusChargedBack)),
		row("chargedback", was+`,"canceled_amount":4990`, payment.StatusChargedBack, paid, total(4990), status(payment.StatusChargedBack)),
		row("chargedback", was+`,"canceled_amount":14990`, payment.StatusChargedBack, paid, status(payment.StatusChargedBack)),
	}
	for name, r := range map[string]providertest.Lookup{
		"a status of tomorrow":                    {Answer: sale("splendid", ""), Err: provider.ErrUnreadable},
		"an order's status word":                  {Answer: sale("refunded", ""), Err: provider.ErrUnreadable},
		"paid without paid_amount":                {Answer: sale("paid", ""), Err: provider.ErrUnreadable},
		"paid nothing":                            {Answer: sale("paid", `,"paid_amount":0`), Err: provider.ErrUnreadable},
		"charged back without paid_amount":        {Answer: sale("chargedback", ""), Err: provider.ErrUnreadable},
		"refunded in part of an unknown amount":   {Answer: sale("canceled", `,"canceled_amount":10000`+tx("refunded")), Facts: []payment.Fact{status(payment.StatusRefunded)}},
		"a canceled_amount that is not an amount": {Answer: sale("paid", was+`,"canceled_amount":"x"`), Err: provider.ErrUnreadable},
		"a currency of no country":                {Answer: sale("paid", was+`,"currency":"REAL"`), Err: provider.ErrUnreadable},
		"not found, said with 400": {Err: provider.ErrNotFound, Answer: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"message":"Charge not found."}`)
		}},
	} {
		r.Name, r.Ref = name, ref
		rows = append(rows, r)
	}
	return rows
}

// pages answers the charge, and its payables page by page; asked records the
// queries.
func pages(t *testing.T, asked *[]string, bodies ...string) *http.Client {
	return &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/payables") {
			sale("paid", `,"paid_amount":14990`)(w, r)
			return
		}
		if r.URL.Host != "api.pagar.me" || r.URL.Path != "/core/v5/payables" || r.URL.Query().Get("charge_id") != ref {
			t.Errorf("asked %s", r.URL)
		}
		*asked = append(*asked, r.URL.RawQuery)
		fmt.Fprint(w, bodies[min(len(*asked), len(bodies))-1])
	})}}
}

func withPayables(t *testing.T) provider.Provider {
	src := source()
	src.Setting = settings("AUTH", "basic", "PAYABLES", "true")
	return build(t, src)
}

func TestTheFeeIsTheSumOverThePayables(t *testing.T) {
	t.Parallel()
	var asked []string
	client := pages(t, &asked,
		`{"data":[{"id":1,"charge_id":"`+ref+`","type":"credit","installment":1,"amount":7495,"fee":150,"anticipation_fee":0,"fraud_coverage_fee":10},`+
			`{"type":"credit","installment":2,"amount":7495,"fee":149,"anticipation_fee":33,"fraud_coverage_fee":null}],`+
			`"paging":{"total":4,"next":"https://elsewhere.example/core/v5/payables?charge_id=ch_other&page=2&size=2"}}`,
		`{"data":[{"type":"credit","installment":2,"amount":0,"fee":1,"anticipation_fee":2},{"type":"refund","installment":1,"amount":-7495,"fee":-150}],"paging":{"total":4,"previous":"x","next":null}}`)
	claim, err := withPayables(t).Lookup(context.Background(), client, ref)
	if err != nil {
		t.Fatal(err)
	}
	want := []payment.Fact{status(payment.StatusPaid),
		{Kind: payment.FactFee, ID: ref, Amount: payment.Of(310)},
		{Kind: payment.FactFee, ID: ref + ":anticipation:2", Amount: payment.Of(35)}}
	if d := providertest.DiffClaims([]payment.Claim{{Facts: want}}, []payment.Claim{{Facts: claim.Facts}}); d != "" {
		t.Error(d)
	}
	if len(asked) != 2 || asked[1] != "charge_id="+ref+"&page=2&size=2" {
		t.Errorf("asked %q", asked)
	}
}

func TestPayablesThatCannotBeReadWholeAreNotTakenInPart(t *testing.T) {
	t.Parallel()
	credit := func(more string) string { return `{"type":"credit","installment":1,"fee":150` + more + `}` }
	for name, c := range map[string]struct {
		body string
		err  error
	}{
		"no data":               {`{"paging":{}}`, provider.ErrUnreadable},
		"a list without end":    {`{"data":[],"paging":{"next":"https://api.pagar.me/core/v5/payables?page=2"}}`, provider.ErrUnreadable},
		"a cursor without link": {`{"data":[` + credit("") + `],"paging":{"next":null,"forward_cursor":"abc"}}`, provider.ErrUnreadable},
		"a link without query":  {`{"data":[],"paging":{"next":"https://api.pagar.me/core/v5/payables"}}`, provider.ErrUnreadable},
		"a link that is none":   {`{"data":[],"paging":{"next":{"after":1}}}`, provider.ErrUnreadable},
		"another charge's":      {`{"data":[` + credit(`,"charge_id":"ch_OTHER"`) + `],"paging":{}}`, provider.ErrMismatch},
		"a negative fee":        {`{"data":[` + credit(`,"fraud_coverage_fee":-1`) + `],"paging":{}}`, provider.ErrUnreadable},
		"fees beyond 64 bits":   {`{"data":[` + credit(`,"fraud_coverage_fee":9223372036854775807`) + `],"paging":{}}`, provider.ErrUnreadable},
		"a fee with a fraction": {`{"data":[` + credit(`,"anticipation_fee":0.5`) + `],"paging":{}}`, provider.ErrUnreadable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			if claim, err := withPayables(t).Lookup(context.Background(), pages(t, &asked, c.body), ref); !errors.Is(err, c.err) {
				t.Errorf("%v, %+v", err, claim)
			}
			if len(asked) > 20 {
				t.Errorf("asked %d times", len(asked))
			}
		})
	}
}

// A capture is not booked before its fee is known, since the beneficiary is
// credited the net.
func TestPayablesThatDoNotExistYetAreAskedForAgain(t *testing.T) {
	t.Parallel()
	var asked []string
	claim, err := withPayables(t).Lookup(context.Background(), pages(t, &asked, `{"data":[],"paging":{"total":0}}`), ref)
	if err != nil {
		t.Fatal(err)
	}
	if r := payment.Apply(payment.Payment{GatewayID: ref}, claim); r.Need != payment.NeedFeeAmount {
		t.Errorf("need %q", r.Need)
	}
}

func TestNoPayablesAreAskedForUnlessTheSettingSaysSo(t *testing.T) {
	t.Parallel()
	var asked []string
	claim, err := build(t, source()).Lookup(context.Background(), pages(t, &asked, ""), ref)
	if err != nil || len(asked) > 0 || len(claim.Facts) != 1 {
		t.Errorf("%+v, %v, asked %q", claim, err, asked)
	}
	src := source()
	src.Setting = settings("AUTH", "basic", "PAYABLES", "true")
	client := &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "payables") {
			t.Error("asked for the payables of a charge that is not paid")
		}
		sale("pending", "")(w, r)
	})}}
	if _, err := build(t, src).Lookup(context.Background(), client, ref); err != nil {
		t.Error(err)
	}
}

// A missing list of payables is a fault of the set-up, not a missing payment.
func TestPayablesThatAreNotFoundNameTheSetting(t *testing.T) {
	t.Parallel()
	client := &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "payables") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		sale("paid", `,"paid_amount":14990`)(w, r)
	})}}
	_, err := withPayables(t).Lookup(context.Background(), client, ref)
	if errors.Is(err, provider.ErrNotFound) || !errors.Is(err, provider.ErrUnreadable) || !strings.Contains(err.Error(), "PAGARME_PAYABLES") {
		t.Error(err)
	}
}
