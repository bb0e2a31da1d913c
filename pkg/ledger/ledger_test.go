package ledger_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/umavez/umavez/pkg/ledger"
	"github.com/umavez/umavez/pkg/payment"
)

func held() *payment.Payment {
	return &payment.Payment{Provider: "asaas", Account: "loja2", GatewayID: "pay_1"}
}

func TestEachKindMovesMoneyInItsDirection(t *testing.T) {
	t.Parallel()
	const gateway, owner, fees, unallocated = "gateway:asaas:loja2", "beneficiary:ana", "fees:asaas", "unallocated:asaas"
	for _, tc := range []struct {
		kind          payment.Kind
		amount        int64
		beneficiary   string
		debit, credit string
		posted        int64
	}{
		{payment.KindCapture, 100, "ana", gateway, owner, 100},
		{payment.KindCapture, 100, "", gateway, unallocated, 100},
		{payment.KindFee, 3, "ana", owner, fees, 3},
		{payment.KindFee, 3, "", unallocated, fees, 3},
		{payment.KindRefund, 40, "ana", owner, gateway, 40},
		{payment.KindRefund, 40, "", unallocated, gateway, 40},
		{payment.KindRefundReversal, 40, "ana", gateway, owner, 40},
		{payment.KindChargeback, 60, "ana", owner, gateway, 60},
		{payment.KindChargebackReversal, 60, "ana", gateway, owner, 60},
		{payment.KindAllocation, 97, "ana", unallocated, owner, 97},
		{payment.KindAllocation, -3, "ana", owner, unallocated, 3},
		{payment.KindAllocation, -math.MaxInt64, "ana", owner, unallocated, math.MaxInt64},
	} {
		t.Run(fmt.Sprintf("%s of %d for %q", tc.kind, tc.amount, tc.beneficiary), func(t *testing.T) {
			t.Parallel()
			got, err := ledger.Entries(held(), payment.Transition{
				Seq: 7, Currency: "BRL", Beneficiary: tc.beneficiary,
				Bookings: []payment.Booking{{Kind: tc.kind, RefType: "payment", RefID: "pay_1", Amount: tc.amount}},
			})
			if err != nil {
				t.Fatal(err)
			}
			want := ledger.Entry{
				Debit: ledger.Account{Kind: kindOf(tc.debit), Name: tc.debit}, Credit: ledger.Account{Kind: kindOf(tc.credit), Name: tc.credit},
				Amount: tc.posted, Currency: "BRL", ReferenceType: "payment", ReferenceID: "asaas/loja2/pay_1", Kind: tc.kind, Seq: 7,
			}
			if diff := cmp.Diff([]ledger.Entry{want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func kindOf(name string) string {
	for _, k := range []string{ledger.KindGateway, ledger.KindBeneficiary, ledger.KindFees, ledger.KindUnallocated} {
		if len(name) > len(k) && name[:len(k)+1] == k+":" {
			return k
		}
	}
	return ""
}

func TestABookingThatCannotBePostedIsAnError(t *testing.T) {
	t.Parallel()
	for name, tr := range map[string]payment.Transition{
		"unknown kind":               {Currency: "BRL", Bookings: []payment.Booking{{Kind: "gift", RefType: "payment", RefID: "x", Amount: 1}}},
		"nothing":                    {Currency: "BRL", Bookings: []payment.Booking{{Kind: payment.KindCapture, RefType: "payment", RefID: "x"}}},
		"below zero":                 {Currency: "BRL", Bookings: []payment.Booking{{Kind: payment.KindRefund, RefType: "refund", RefID: "x", Amount: -1}}},
		"no currency":                {Bookings: []payment.Booking{{Kind: payment.KindCapture, RefType: "payment", RefID: "x", Amount: 1}}},
		"no id":                      {Currency: "BRL", Bookings: []payment.Booking{{Kind: payment.KindFee, RefType: "fee", Amount: 1}}},
		"no type":                    {Currency: "BRL", Bookings: []payment.Booking{{Kind: payment.KindFee, RefID: "x", Amount: 1}}},
		"allocated to nobody":        {Currency: "BRL", Bookings: []payment.Booking{{Kind: payment.KindAllocation, RefType: "payment", RefID: "x", Amount: 1}}},
		"an amount without negative": {Currency: "BRL", Beneficiary: "ana", Bookings: []payment.Booking{{Kind: payment.KindAllocation, RefType: "payment", RefID: "x", Amount: math.MinInt64}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := ledger.Entries(held(), tr); err == nil {
				t.Errorf("posted %+v", got)
			}
		})
	}
}

func TestCase_B21_OneIDAtTwoGatewaysOrAccountsIsTwoReferences(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, owner := range [][2]string{{"stripe", "default"}, {"asaas", "default"}, {"stripe", "loja2"}, {"stripe-loja2", "default"}, {"stripe", "default-x"}} {
		for _, id := range []string{"evt_1", "default/evt_1", "evt", "1", "/evt_1", "ab", "abc", "c"} {
			ref := ledger.Reference(owner[0], owner[1], id)
			what := fmt.Sprint(owner, id)
			if other, twice := seen[ref]; twice {
				t.Errorf("%s names both %s and %s", ref, other, what)
			}
			seen[ref] = what
		}
	}
}

// Whatever happens to a payment, its entries say what the payment says, and
// no money stays unallocated once the owner is known.
func TestTheEntriesOfAPaymentAddUpToIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := *held()
		balance := map[string]int64{}
		keys := map[string]bool{}
		for i := range rapid.IntRange(1, 12).Draw(t, "claims") {
			r := payment.Apply(p, drawClaim(t, i))
			for _, tr := range r.Transitions {
				entries, err := ledger.Entries(&r.Payment, tr)
				if err != nil || len(entries) != len(tr.Bookings) {
					t.Fatalf("%d entries of %d bookings: %v", len(entries), len(tr.Bookings), err)
				}
				for _, e := range entries {
					key := e.ReferenceType + "|" + e.ReferenceID + "|" + string(e.Kind)
					if keys[key] || e.Amount <= 0 || e.Currency != "BRL" || e.Seq != tr.Seq {
						t.Fatalf("entry %+v, seen before: %t", e, keys[key])
					}
					keys[key] = true
					balance[e.Debit.Name] -= e.Amount
					balance[e.Credit.Name] += e.Amount
				}
			}
			p = r.Payment
		}
		var sum int64
		for _, b := range balance {
			sum += b
		}
		if sum != 0 {
			t.Fatalf("the ledger adds up to %d: %v", sum, balance)
		}
		owner := ledger.Owner("asaas", p.Beneficiary).Name
		if balance[owner] != p.Net() || balance["fees:asaas"] != p.Fee ||
			-balance["gateway:asaas:loja2"] != p.Captured.Value-p.Refunded-p.ChargedBack {
			t.Fatalf("%v does not say what %+v says", balance, p)
		}
		if p.Beneficiary != "" && balance["unallocated:asaas"] != 0 {
			t.Fatalf("%d stays unallocated", balance["unallocated:asaas"])
		}
	})
}

func drawClaim(t *rapid.T, second int) payment.Claim {
	c := payment.Claim{
		GatewayID: "pay_1", Currency: "BRL", Captured: payment.Of(10000), Reason: "drawn",
		At: time.Date(2026, 1, 1, 0, 0, rapid.IntRange(0, 20).Draw(t, "at"), 0, time.UTC),
	}
	if second > 2 && rapid.Bool().Draw(t, "owner") {
		c.Beneficiary = "ana"
	}
	id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id")
	amount := payment.Of(map[string]int64{"a": 10000, "b": 4000, "c": 1000}[id])
	c.Facts = []payment.Fact{rapid.SampledFrom([]payment.Fact{
		{Kind: payment.FactStatus, Status: payment.StatusPending},
		{Kind: payment.FactStatus, Status: payment.StatusPaid},
		{Kind: payment.FactStatus, Status: payment.StatusRefunded},
		{Kind: payment.FactFee, ID: "f" + id, Amount: payment.Of(77)},
		{Kind: payment.FactRefund, ID: "r" + id, Amount: amount, Refund: payment.RefundSucceeded},
		{Kind: payment.FactRefund, ID: "r" + id, Amount: amount, Refund: payment.RefundFailed},
		{Kind: payment.FactDispute, ID: "d" + id, Amount: amount, Dispute: payment.DisputeOpen},
		{Kind: payment.FactDispute, ID: "d" + id, Amount: amount, Dispute: payment.DisputeLost},
		{Kind: payment.FactDispute, ID: "d" + id, Amount: amount, Dispute: payment.DisputeWon},
		{Kind: payment.FactUndo, ID: "u" + id},
	}).Draw(t, "fact")}
	return c
}

func BenchmarkEntries(b *testing.B) {
	p := held()
	tr := payment.Transition{Seq: 1, Currency: "BRL", Beneficiary: "ana", Bookings: []payment.Booking{
		{Kind: payment.KindCapture, RefType: "payment", RefID: "pay_1", Amount: 100}, {Kind: payment.KindFee, RefType: "fee", RefID: "pay_1", Amount: 3},
	}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ledger.Entries(p, tr); err != nil {
			b.Fatal(err)
		}
	}
}
