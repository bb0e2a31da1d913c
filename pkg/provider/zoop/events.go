package zoop

import (
	"strings"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// stage says what an event type, or a status of the API, means for a
// transaction, in the tables of the contract.
type stage int

const (
	stageAsk      stage = iota // something may have changed: the lookup says what
	stageOther                 // an event that is not about what was paid
	stageAttempt               // a status before capture, in rule.status
	stagePaid                  // the money stands, less what amount lacks of original_amount
	stagePart                  // the same, and something must be lacking
	stageReturned              // all of it was given back
	stageCanceled              // given back if it was ever paid, else canceled
	stageByObject              // one of the last four, by the status of the object
	stageReversed              // undone as if it had never been
	stageDisputed              // disputed or charged back, in rule.status
)

type rule struct {
	stage  stage
	status payment.Status
}

var (
	pending     = rule{stageAttempt, payment.StatusPending}
	authorized  = rule{stageAttempt, payment.StatusAuthorized}
	failed      = rule{stageAttempt, payment.StatusFailed}
	disputed    = rule{stageDisputed, payment.StatusDisputed}
	chargedBack = rule{stageDisputed, payment.StatusChargedBack}
)

// rules is the table of event types. Other names that begin with "transaction."
// (paid, authorized, refunded and expired occur in code that nobody could
// verify) are looked up.
var rules = map[string]rule{
	"transaction.created":                     pending,
	"transaction.pre_authorized":              authorized,
	"transaction.pre_authorization.succeeded": authorized,
	"transaction.pre_authorization.failed":    failed,
	"transaction.succeeded":                   {stage: stagePaid},
	"transaction.capture.succeeded":           {stage: stagePaid},
	"transaction.capture.failed":              {stage: stageAsk},
	"transaction.failed":                      failed,
	"transaction.canceled":                    {stage: stageByObject},
	"transaction.void.succeeded":              {stage: stageByObject},
	"transaction.void.failed":                 {stage: stageAsk},
	"transaction.reversed":                    {stage: stageReversed},
	"transaction.disputed":                    disputed,
	"transaction.charged_back":                chargedBack, // the cardholder won
	"transaction.charge_back":                 chargedBack,
	"transaction.dispute.succeeded":           {stage: stagePaid}, // the merchant won: the money stands again
	"transaction.updated":                     {stage: stageAsk},
	"transaction.commission.succeeded":        {stage: stageOther},
}

// statuses is the table of the API's status words.
var statuses = map[provider.Text]rule{
	"new":              pending,
	"pending":          pending,
	"created":          pending,
	"pre_authorized":   authorized,
	"succeeded":        {stage: stagePaid},
	"partial_refunded": {stage: stagePart},
	"refunded":         {stage: stageReturned},
	"canceled":         {stage: stageCanceled},
	"reversed":         {stage: stageReversed},
	"failed":           failed,
	"dispute":          disputed,
	"disputed":         disputed,
	"charged_back":     chargedBack,
}

const transactions = "transaction."

// others are the first parts of the names of events about something else:
// settlement to sellers, recurrence (whose money comes as a transaction too),
// and buyer.transaction.*, which mirrors transaction.* under other ids.
var others = []string{"receivable.", "transfer.", "invoice.", "subscription.", "plan.", "seller.", "document.", "bank_account.", "buyer."}

// isOther says whether a type is known to be about something else.
func isOther(typ string) bool {
	for _, o := range others {
		if strings.HasPrefix(typ, o) {
			return true
		}
	}
	return rules[typ].stage == stageOther
}
