package mercadopago

import (
	"strings"

	"github.com/umavez/umavez/pkg/provider"
)

// topic says what a notification is about.
type topic int

const (
	topicUnknown    topic = iota
	topicPayment          // a payment of the Payments API, by its number
	topicOrder            // an order of the Orders API, by its ORD... id
	topicChargeback       // a case about a payment
	topicAlert            // fraud is suspected: do not deliver
	topicOther            // the money of it, if any, is told by the others
)

// topics is the table of the types that bodies carry. The panel has other
// names for some of them; both are here.
var topics = map[provider.Text]topic{
	"payment":              topicPayment,
	"order":                topicOrder,
	"orders":               topicOrder,
	"topic_chargebacks_wh": topicChargeback,
	"chargebacks":          topicChargeback,
	"stop_delivery_op_wh":  topicAlert,

	"subscription_authorized_payment": topicOther, // a payment notification tells of the same money
	"subscription_preapproval":        topicOther,
	"subscription_preapproval_plan":   topicOther,
	"merchant_order":                  topicOther, // its payments tell of the same money
	"topic_merchant_order_wh":         topicOther,
	"claim":                           topicOther,
	"topic_claims_integration_wh":     topicOther,
	"mp-connect":                      topicOther,
	"wallet_connect":                  topicOther,
	"topic_card_id_wh":                topicOther,
	"automatic-payments":              topicOther,
	"point_integration_wh":            topicOther,
}

// isPaymentID says whether a reference is of the form of payment numbers.
func isPaymentID(ref string) bool { return len(ref) <= 20 && onlyDigits(ref) }

const (
	orderPrefix     = "ORD"
	testOrderPrefix = "ORDTST" // of orders made with test credentials
)

// orderID gives the one spelling of an order's id, which has capitals and
// digits only. The address may have it in lower case, and a signature over
// the lower-case spelling lets any other pass: left as sent, one order would
// be several payments. "" is no order's id.
func orderID(id string) string {
	up := strings.ToUpper(id)
	if len(up) <= len(orderPrefix) || len(up) > 64 || !strings.HasPrefix(up, orderPrefix) {
		return ""
	}
	for i := range len(up) {
		if c := up[i]; (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return ""
		}
	}
	return up
}
