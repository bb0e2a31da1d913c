// Package ledger turns the bookings of a transition into postings. A posting
// names the account it debits and the one it credits, so that any set of them
// is balanced by construction. Pure functions; nothing is stored here.
//
// Signs: a beneficiary's balance is what it was credited less what it was
// debited, which is what we owe it. A gateway account is the mirror: what it
// was debited less what it was credited is what the gateway owes us.
package ledger

import (
	"fmt"

	"github.com/umavez/umavez/pkg/payment"
)

// The kinds of account, which are also the first part of its name.
const (
	KindGateway     = "gateway"
	KindBeneficiary = "beneficiary"
	KindFees        = "fees"
	KindUnallocated = "unallocated"
)

// Account is the name of a ledger account: "gateway:<provider>:<account>",
// "beneficiary:<name>", "fees:<provider>" or "unallocated:<provider>".
type Account struct {
	Kind string
	Name string
}

// Gateway is what the gateway owes us.
func Gateway(provider, account string) Account {
	return Account{KindGateway, KindGateway + ":" + provider + ":" + account}
}

// Owner is what we owe the payment's owner, or, while nobody knows it, what
// waits in the provider's unallocated account.
func Owner(provider, beneficiary string) Account {
	if beneficiary == "" {
		return Account{KindUnallocated, KindUnallocated + ":" + provider}
	}
	return Account{KindBeneficiary, KindBeneficiary + ":" + beneficiary}
}

// Fees is what the gateway kept.
func Fees(provider string) Account { return Account{KindFees, KindFees + ":" + provider} }

// Entry is one immutable posting. (ReferenceType, ReferenceID, Kind) is unique
// in the whole ledger: the last barrier against booking one thing twice.
type Entry struct {
	Debit, Credit Account
	Amount        int64 // minor units, above zero
	Currency      string
	ReferenceType string // "payment", "refund", "dispute", "fee"
	ReferenceID   string // "<provider>/<account>/<the gateway's id>"
	Kind          payment.Kind
	Seq           int64 // of the transition, within its payment
}

// Reference names a gateway's object in the ledger. Provider and account are
// part of it, since two gateways, and two accounts of one, may use one id for
// two things; neither of their names can contain a slash.
func Reference(provider, account, id string) string {
	return provider + "/" + account + "/" + id
}

// Entries gives the postings of one transition of a payment: one for each
// booking. An error means a defect of ours: a booking that is no movement of
// money, or that has no reference to be unique by.
func Entries(p *payment.Payment, t payment.Transition) ([]Entry, error) {
	entries := make([]Entry, 0, len(t.Bookings))
	for _, b := range t.Bookings {
		e := Entry{
			Amount: b.Amount, Currency: t.Currency, Kind: b.Kind, Seq: t.Seq,
			ReferenceType: b.RefType, ReferenceID: Reference(p.Provider, p.Account, b.RefID),
		}
		gateway, owner := Gateway(p.Provider, p.Account), Owner(p.Provider, t.Beneficiary)
		switch b.Kind {
		case payment.KindCapture, payment.KindRefundReversal, payment.KindChargebackReversal:
			e.Debit, e.Credit = gateway, owner
		case payment.KindRefund, payment.KindChargeback:
			e.Debit, e.Credit = owner, gateway
		case payment.KindFee:
			e.Debit, e.Credit = owner, Fees(p.Provider)
		case payment.KindAllocation:
			e.Debit, e.Credit = Owner(p.Provider, ""), owner
			if e.Amount < 0 { // more had left than came in
				e.Debit, e.Credit, e.Amount = e.Credit, e.Debit, -e.Amount
			}
		default:
			return nil, fmt.Errorf("booking of unknown kind %q", b.Kind)
		}
		if e.Amount <= 0 || e.Currency == "" || e.Debit == e.Credit || b.RefType == "" || b.RefID == "" {
			return nil, fmt.Errorf("booking %s of %s %q has amount %d, currency %q, accounts %s and %s",
				b.Kind, b.RefType, e.ReferenceID, e.Amount, e.Currency, e.Debit.Name, e.Credit.Name)
		}
		entries = append(entries, e)
	}
	return entries, nil
}
