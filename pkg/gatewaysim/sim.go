package gatewaysim

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Sim is a simulation. It is safe for concurrent use.
type Sim struct {
	cfg      Config
	accounts []*account
	payments []*pay
	// byID finds a payment by account and any of the ids of its API objects.
	byID       map[objectKey]*pay
	deliveries []Delivery
	places     []atomic.Pointer[publication]
	apiSeq     atomic.Uint64
	api        atomic.Pointer[API] // how it behaves now
}

type objectKey struct {
	acct *account
	id   string
}

// account is one account of a gateway.
type account struct {
	gateway gateway
	name    string // "default" for the plain one
	source  string // as in SOURCES
	path    string // of its webhooks
	Credentials
}

// gateway is what differs from one gateway to the other.
type gateway interface {
	name() string
	kinds() []weighted
	eventID(*rand.Rand) string
	credentials(*rand.Rand) Credentials
	// write writes the history of the script's payment.
	write(*script)
	// objects are the ids by which the API knows the payment.
	objects(*pay) []string
	// identity is what makes deliveries the same event, however their bodies
	// may differ.
	identity(p *pay, st *step, h *happening) string
	// body is what the gateway sends. attempt counts deliveries of one event.
	body(p *pay, st *step, h *happening, attempt int) []byte
	// test is a body marked as a test, and further headers; nil without such.
	test(p *pay, st *step, h *happening, variant uint64) ([]byte, http.Header)
	// malformed are bodies that cannot be read or mapped.
	malformed(p *pay, body []byte, variant uint64) []byte
	// sign gives the authentic request that carries a body. pick chooses
	// among secrets.
	sign(c *Credentials, body []byte, now time.Time, pick uint64) Sent
	// forge gives a request that must be refused.
	forge(c *Credentials, body []byte, now time.Time, variant uint64) Sent
	// success says whether the gateway takes an answer as received.
	success(status int) bool
	// serve adds the lookup API.
	serve(*http.ServeMux, *Sim)
	// settings are those of umavez over the common ones, by their last part;
	// apiBase is the address of APIHandler.
	settings(a *account, apiBase string) map[string]string
	// retitle is what to change in a body, path by path, so that it becomes a
	// new event of a type.
	retitle(typ string, r *rand.Rand) map[string]any
}

// New makes a simulation, or says which field of the Config is wrong.
func New(cfg Config) (*Sim, error) {
	if err := cfg.normalize(); err != nil {
		return nil, err
	}
	s := &Sim{cfg: cfg, byID: map[objectKey]*pay{}}
	s.SetAPI(cfg.API)
	secrets := newRand(cfg.Seed, streamSecrets)
	for _, source := range cfg.Gateways {
		name, acct, plain := strings.Cut(source, "/")
		a := &account{gateway: gateways[name], name: acct, source: source, path: "/webhooks/" + source}
		if !plain {
			a.name = "default"
		}
		made := a.gateway.credentials(secrets)
		a.Credentials = cfg.Credentials[source]
		if len(a.WebhookSecrets) == 0 {
			a.WebhookSecrets = made.WebhookSecrets
		}
		if a.APIKey == "" {
			a.APIKey = made.APIKey
		}
		s.accounts = append(s.accounts, a)
	}
	for i, pl := range s.plans() {
		script := newScript(&cfg, i, pl)
		pl.acct.gateway.write(script)
		s.payments = append(s.payments, script.p)
		for _, id := range pl.acct.gateway.objects(script.p) {
			s.byID[objectKey{pl.acct, id}] = script.p
		}
	}
	s.places = make([]atomic.Pointer[publication], len(s.payments))
	s.deliveries = s.schedule()
	return s, nil
}

// SetAPI changes how the lookup APIs behave from now on. A replica must not lag
// for longer than Config.API said, since Settings allows for that much.
func (s *Sim) SetAPI(a API) {
	if a.RetryAfter == 0 {
		a.RetryAfter = time.Second
	}
	a.StaleFor = min(a.StaleFor, s.cfg.API.StaleFor)
	if a.StaleFor == 0 {
		a.StaleFor = s.cfg.API.StaleFor
	}
	s.api.Store(&a)
}

// Truth returns the truth about every payment at the end of its history, in
// the order of Delivery.Payment.
func (s *Sim) Truth() []Payment {
	all := make([]Payment, len(s.payments))
	for i, p := range s.payments {
		all[i] = p.truth()
	}
	return all
}

// Balances returns what each beneficiary is owed at the end: the net of all
// captured payments that are heard of, in minor units of the currency.
func (s *Sim) Balances() map[Owner]int64 {
	sums := map[Owner]int64{}
	for _, p := range s.Truth() {
		if p.Captured > 0 && p.Heard {
			sums[Owner{p.Beneficiary, p.Currency}] += p.Net
		}
	}
	return sums
}

// Deliveries returns the schedule in the order of sending. It is shared and
// must not be changed.
func (s *Sim) Deliveries() []Delivery { return s.deliveries }

// Credentials returns those of one entry of Config.Gateways.
func (s *Sim) Credentials(source string) (Credentials, bool) {
	for _, a := range s.accounts {
		if a.source == source {
			return a.Credentials, true
		}
	}
	return Credentials{}, false
}

// Sources are the accounts that are played, as in SOURCES.
func (s *Sim) Sources() []string { return slices.Clone(s.cfg.Gateways) }
