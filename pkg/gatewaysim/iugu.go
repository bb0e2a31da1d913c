package gatewaysim

import (
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// iugu plays Iugu: triggers are forms without id, time or signature, and two
// of them about one invoice may be the same to the last byte.
type iugu struct{}

// Kinds of history that only Iugu has.
const (
	KindPaidElsewhere Kind = "paid_elsewhere" // marked as paid, no money came
	KindUnderpaid     Kind = "underpaid"      // part of a boleto
	KindSubscription  Kind = "subscription"   // created when already paid; "pending" comes after
)

const (
	iuguForm   = "application/x-www-form-urlencoded"
	iuguLetter = "0123456789ABCDEF"
	// iuguInPath begins the secrets that travel at the end of the address; the
	// others are the value of the Authorization header.
	iuguInPath = "iugu_path_"
)

func (iugu) name() string { return "iugu" }

func (iugu) kinds() []weighted {
	return []weighted{
		{KindCreated, 5}, {KindPaid, 25}, {KindPaidRepeatedly, 8}, {KindSubscription, 12}, {KindAuthorized, 3}, {KindCaptured, 6},
		{KindPartRefunded, 10}, {KindRefunded, 8}, {KindFailed, 3}, {KindFailedThenPaid, 5}, {KindExpired, 4}, {KindCanceled, 3},
		{KindPaidElsewhere, 4}, {KindUnderpaid, 4}, {KindDisputed, 4}, {KindDisputeWon, 6}, {KindDisputeLost, 4},
	}
}

// eventID: a trigger has none.
func (iugu) eventID(*rand.Rand) string { return "" }

func (iugu) credentials(r *rand.Rand) Credentials {
	prefix := "iugu sim "
	if r.IntN(2) == 0 {
		prefix = iuguInPath
	}
	return Credentials{
		WebhookSecrets: []string{prefix + randomText(r, 24, base62), prefix + randomText(r, 24, base62)},
		APIKey:         randomText(r, 64, iuguLetter),
	}
}

func (iugu) objects(p *pay) []string { return []string{p.id} }

// identity is all that distinguishes two triggers: refunds of parts, and a
// receipt before and after a protest, are the same one.
func (iugu) identity(p *pay, st *step, h *happening) string {
	return h.typ + ":" + p.id + ":" + st.word
}

func (iugu) success(status int) bool { return status == http.StatusOK }

func (iugu) retitle(typ string, _ *rand.Rand) map[string]any { return map[string]any{"event": typ} }

func (iugu) settings(a *account, apiBase string) map[string]string {
	place := "header"
	if strings.HasPrefix(a.WebhookSecrets[0], iuguInPath) {
		place = "path"
	}
	return map[string]string{
		"AUTH":     place,
		"API_BASE": apiBase + "/iugu/v1",
		// That a protest was won shows in nothing but that the invoice is paid
		// again, more than the lag after it was seen in protest. A history of
		// weeks passes here in moments, and no answer about it is stale.
		"LOOKUP_LAG": "0s",
	}
}

func (iugu) sign(c *Credentials, body []byte, _ time.Time, pick uint64) Sent {
	s := Sent{Body: body, Header: http.Header{"Content-Type": {iuguForm}, "User-Agent": {"Iugu"}}}
	secret := c.WebhookSecrets[pick%uint64(len(c.WebhookSecrets))]
	if strings.HasPrefix(secret, iuguInPath) {
		s.Suffix = "/" + secret
	} else {
		s.Header.Set("Authorization", secret)
	}
	return s
}

func (g iugu) forge(c *Credentials, body []byte, now time.Time, variant uint64) Sent {
	s := g.sign(c, body, now, variant)
	good := s.Header.Get("Authorization") + strings.TrimPrefix(s.Suffix, "/")
	bad := ""
	switch variant % 6 {
	case 0:
		bad = "forged_0000000000000000"
	case 1: // none at all
	case 2:
		bad = "Bearer " + good
		if s.Suffix != "" {
			bad = good + "/" + good
		}
	case 3:
		bad = strings.ToUpper(good)
	case 4:
		bad = good[:len(good)-1]
	case 5: // the right value in the wrong place
		if s.Suffix != "" {
			s.Suffix = ""
			s.Header.Set("Authorization", good)
			return s
		}
		s.Query = "authorization=" + url.QueryEscape(good)
	}
	if s.Suffix != "" {
		s.Suffix = strings.TrimSuffix("/"+bad, "/")
	} else if s.Header.Del("Authorization"); bad != "" {
		s.Header.Set("Authorization", bad)
	}
	return s
}

// iuguBody writes a form in the order of its fields, brackets encoded.
func iuguBody(fields ...[2]string) []byte {
	var b strings.Builder
	for i, f := range fields {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(f[0]) + "=" + url.QueryEscape(f[1]))
	}
	return []byte(b.String())
}

// body: the same happening has the same bytes on every attempt, and so have
// two happenings of one identity. Refunds have the fewest fields.
func (g iugu) body(p *pay, st *step, h *happening, _ int) []byte {
	fields := [][2]string{
		{"event", h.typ}, {"data[id]", p.id}, {"data[account_id]", g.accountID(p)}, {"data[status]", st.word},
	}
	if h.typ == "invoice.refund" {
		return iuguBody(fields...)
	}
	subscription := ""
	if p.kind == KindSubscription {
		subscription = "5B" + p.id[2:]
	}
	fields = append(fields, [2]string{"data[subscription_id]", subscription})
	switch p.oddities % 3 { // "when set"
	case 0:
		fields = append(fields, [2]string{"data[" + g.referenceName(p) + "]", p.reference})
	case 1:
		fields = append(fields, [2]string{"data[payment_booklet_id]", "B0" + p.id[2:]}, [2]string{"data[payment_method]", p.method})
	}
	return iuguBody(fields...)
}

func (iugu) accountID(p *pay) string {
	return randomText(newRand(mix(uint64(len(p.acct.source)), uint64(p.acct.APIKey[0])), streamRequest), 32, iuguLetter)
}

// referenceName is the field in which the shop put its own key.
func (iugu) referenceName(p *pay) string {
	if p.oddities%2 == 0 {
		return "external_reference"
	}
	return "order_id"
}

// test: Iugu marks no tests, but a trigger without data is of no use either.
func (g iugu) test(p *pay, _ *step, h *happening, variant uint64) ([]byte, http.Header) {
	switch variant % 3 {
	case 0:
		return iuguBody([2]string{"event", h.typ}), nil
	case 1:
		return iuguBody([2]string{"event", h.typ}, [2]string{"data[id]", ""}, [2]string{"data[status]", ""}), nil
	}
	return iuguBody([2]string{"event", h.typ}, [2]string{"data", ""}), nil
}

func (g iugu) malformed(p *pay, body []byte, variant uint64) []byte {
	mark := randomText(newRand(variant, streamRequest), 20, hexes)
	switch variant % 6 {
	case 0: // the end is half of an escape
		return append(append([]byte{}, body...), "&data%5Bx"+mark+"%5"...)
	case 1:
		return append(append([]byte{}, body...), "&data%5Bstatus%5D=draft&x="+mark...)
	case 2: // what it would be as JSON
		return object{{"event", "invoice.status_changed"}, {"data", object{{"id", p.id}, {"status", "paid"}, {"mark", mark}}}}.bytes()
	case 3:
		return iuguBody([2]string{"event", "invoice.status_changed"}, [2]string{"data[status]", "paid"}, [2]string{"data[mark]", mark})
	case 4:
		return iuguBody([2]string{"event", "invoice.status_changed"}, [2]string{"data[id]", p.id + "\x00" + mark}, [2]string{"data[status]", "paid"})
	}
	return iuguBody([2]string{"event", "invoice.status_changed"}, [2]string{"data[id][0]", p.id}, [2]string{"data[status]", mark})
}
