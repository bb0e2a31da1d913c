package zoop

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/umavez/umavez/pkg/provider"
)

// settings are those that only Zoop has.
//
//	MARKETPLACE_ID        required: whose transactions these are
//	OWNER_FIELD           whose money a payment is: "reference" (by BENEFICIARY
//	                      or BENEFICIARY_PATTERN, the default), or "seller",
//	                      the seller's id in on_behalf_of
//	REFERENCE_FIELD       where your order id is: "reference_id" (the default,
//	                      which also finds metadata.reference_id), or
//	                      "metadata.<name>"
//	AUTHORIZATION         the exact Authorization header that Zoop sends, or
//	AUTHORIZATION_FILE    a file with one such value a line; unset: not checked
type settings struct {
	marketplace string
	ownerSeller bool
	metadata    string // name of the order id in metadata; "" is reference_id
}

var (
	marketplaceID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	metadataName  = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	// urlSafe are the characters that no client or proxy rewrites in a path.
	urlSafe = regexp.MustCompile(`^[A-Za-z0-9_~-]+$`)
)

// reader reads settings and collects what is wrong with them. Its messages
// name the variable; they never repeat the value.
type reader struct {
	src    provider.Source
	faults []error
}

func (r *reader) fault(setting, format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf("source %s: %s %s", r.src.Name(), r.src.Variable(setting), fmt.Sprintf(format, args...)))
}

func read(src provider.Source) (settings, []provider.Secret, error) {
	r := reader{src: src}
	r.secrets()
	s := settings{marketplace: src.Value("MARKETPLACE_ID", "")}
	switch {
	case s.marketplace == "":
		r.fault("MARKETPLACE_ID", "is not set; it is the id of your marketplace at Zoop, as in the addresses of its API")
	case !marketplaceID.MatchString(s.marketplace):
		r.fault("MARKETPLACE_ID", "is not an id of letters, digits, _ and -, at most 64 of them")
	}
	switch src.Value("OWNER_FIELD", "reference") {
	case "reference":
	case "seller":
		s.ownerSeller = true
		for _, other := range []struct {
			set  bool
			name string
		}{{src.Beneficiary != "", "BENEFICIARY"}, {src.BeneficiaryPattern != nil, "BENEFICIARY_PATTERN"}} {
			if other.set {
				r.fault("OWNER_FIELD", "is seller, and %s is set as well; keep one, each of them says whose money it is", src.Variable(other.name))
			}
		}
	default:
		r.fault("OWNER_FIELD", "is neither reference nor seller")
	}
	if field := src.Value("REFERENCE_FIELD", "reference_id"); field != "reference_id" {
		name, ok := strings.CutPrefix(field, "metadata.")
		if !ok || !metadataName.MatchString(name) {
			r.fault("REFERENCE_FIELD", "is neither reference_id nor metadata.<name>")
		}
		s.metadata = name
	}
	if src.Production && strings.HasPrefix(src.APIKey.Reveal(), "zpk_test_") {
		r.fault("API_KEY", "is a test key, but ENVIRONMENT=production; test money would be booked as real, since nothing in a webhook marks it")
	}
	headers := r.headers()
	return s, headers, errors.Join(r.faults...)
}

// secrets checks what becomes part of the address.
func (r *reader) secrets() {
	if err := r.src.CheckSecrets(minSecretLen); err != nil {
		r.faults = append(r.faults, err)
	}
	for i, s := range r.src.WebhookSecrets {
		if !urlSafe.MatchString(s.Reveal()) {
			r.fault("WEBHOOK_SECRETS", "has an entry, number %d, with characters that an address may not keep as they are; use letters, digits, -, _ and ~, for example the output of openssl rand -hex 32", i+1)
		}
	}
}

// headers reads the values that the Authorization header may have.
func (r *reader) headers() []provider.Secret {
	text, file := r.src.Value("AUTHORIZATION", ""), r.src.Value("AUTHORIZATION_FILE", "")
	setting := "AUTHORIZATION"
	switch {
	case text == "" && file == "":
		return nil
	case text != "" && file != "":
		r.fault(setting, "and %s are both set; keep one", r.src.Variable("AUTHORIZATION_FILE"))
		return nil
	case file != "":
		setting = "AUTHORIZATION_FILE"
		if r.src.File == nil {
			r.fault(setting, "names a file, and this program reads none")
			return nil
		}
		held, err := r.src.File(setting)
		if err != nil {
			r.faults = append(r.faults, fmt.Errorf("source %s: %w", r.src.Name(), err))
			return nil
		}
		text = string(held)
	}
	var values []provider.Secret
	for i, line := range strings.Split(strings.TrimRight(text, "\r\n"), "\n") {
		line = strings.TrimSuffix(line, "\r")
		switch {
		case strings.TrimSpace(line) == "":
			r.fault(setting, "has an empty line, number %d; an empty value would let anybody in", i+1)
		case strings.TrimSpace(line) != line || strings.ContainsFunc(line, unicode.IsControl):
			r.fault(setting, "has outer spaces or a control character in line %d; it is compared with the header byte by byte", i+1)
		default:
			values = append(values, provider.Secret(line))
		}
	}
	return values
}
