package standardwebhooks

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/provider"
)

// Settings about the headers, each <PROVIDER>[_<ACCOUNT>]_<name>:
//
//	KEY_MODE       how a whsec_ secret becomes a key: spec (base64 after the
//	               prefix; the default), raw (the whole text), or
//	               raw_without_prefix (the text after the prefix)
//	MIN_KEY_BYTES  24; down to 16 for a sender with shorter keys
//	TOLERANCE      seconds between the sender's clock and ours, both ways; 300
//	SVIX_HEADERS   true: svix-id, svix-timestamp and svix-signature are taken
//	               where a request has none of the standard headers
//
// Settings about the bodies, each of which may also stand in the JSON file
// that MAPPING_FILE names, under its name in lower case ("events": {...}):
//
//	DEDUPE             id (the webhook-id; the default), body (a hash of the
//	                   bytes), or fields (the values at DEDUPE_FIELDS)
//	DEDUPE_FIELDS      paths, for a sender whose webhook-id changes with each
//	                   attempt: "type,data.id,timestamp"
//	TYPE_PATH          the event's type, and
//	EVENTS             what the types mean: "charge.paid=paid,charge.*=none"
//	STATUS_PATH        the payment's status, for types that mean by_status
//	STATUS_MAP         and what its words mean: "PAID=paid,EXPIRED=expired"
//	TIMESTAMP_PATH     the time of the event, in
//	TIME_FORMAT        rfc3339 (the default), unix or unix_ms
//	SEQUENCE_PATH      a number that grows with each event of a payment; it
//	                   decides between events of the same second
//	PAYMENT_ID_PATH    the payment's id, for all types or by type:
//	                   "refund.*=data.charge_id,*=data.id"
//	AMOUNT_PATH        the gross amount, in
//	AMOUNT_UNIT        minor (1234 is 12.34) or decimal (12.34 is), of
//	CURRENCY           this currency, or the one at CURRENCY_PATH
//	FEE_PATH, NET_PATH what the sender kept of the gross amount, and what it
//	                   left of it, refunds and disputes not deducted
//	NET_MISSING        where no net amount is: fee (the amount less the fee, if
//	                   there is one; the default), lookup, or gross (book the
//	                   gross amount alone)
//	REFERENCE_PATH     your order id
//	BENEFICIARY_PATH   whose money it is
//	REFUND_ID_PATH, REFUND_AMOUNT_PATH     one refund
//	REFUND_TOTAL_PATH  all that was refunded so far
//	DISPUTE_ID_PATH, DISPUTE_AMOUNT_PATH   one dispute
//	LIVEMODE_PATH      false there marks a test
//	TEST_PATH          true there marks a test
//
// Settings about the sender's API are in lookup_settings.go.
//
// PROFILE is generic, or custom: every path by a setting, and none assumed.
// It need not be set: a source with any of the paths above is custom.

// profiles.
const (
	profileGeneric = "generic"
	profileCustom  = "custom"
)

// aboutBodies are the settings that may stand in the file. True: they describe
// a shape, which the profile generic has already.
var aboutBodies = map[string]bool{
	"DEDUPE": false, "DEDUPE_FIELDS": false, "NET_MISSING": false, "API_AUTH": false, "LOOKUP_URL": false,

	"TYPE_PATH": true, "EVENTS": true, "STATUS_PATH": true, "STATUS_MAP": true, "TIMESTAMP_PATH": true, "TIME_FORMAT": true,
	"SEQUENCE_PATH": true, "PAYMENT_ID_PATH": true, "AMOUNT_PATH": true, "AMOUNT_UNIT": true, "CURRENCY": true, "CURRENCY_PATH": true,
	"FEE_PATH": true, "NET_PATH": true, "REFERENCE_PATH": true, "BENEFICIARY_PATH": true, "REFUND_ID_PATH": true,
	"REFUND_AMOUNT_PATH": true, "REFUND_TOTAL_PATH": true, "DISPUTE_ID_PATH": true, "DISPUTE_AMOUNT_PATH": true,
	"LIVEMODE_PATH": true, "TEST_PATH": true,

	"LOOKUP_ID_PATH": true, "LOOKUP_STATUS_PATH": true, "LOOKUP_STATUS_MAP": true, "LOOKUP_AMOUNT_PATH": true, "LOOKUP_AMOUNT_UNIT": true,
	"LOOKUP_CURRENCY_PATH": true, "LOOKUP_FEE_PATH": true, "LOOKUP_NET_PATH": true, "LOOKUP_REFERENCE_PATH": true,
	"LOOKUP_BENEFICIARY_PATH": true, "LOOKUP_REFUND_TOTAL_PATH": true, "LOOKUP_REFUNDS_URL": true, "LOOKUP_REFUNDS_PATH": true,
	"LOOKUP_REFUND_ID_PATH": true, "LOOKUP_REFUND_AMOUNT_PATH": true, "LOOKUP_REFUND_STATUS_PATH": true, "LOOKUP_REFUND_STATUS_MAP": true,
	"LOOKUP_DISPUTES_PATH": true, "LOOKUP_DISPUTE_ID_PATH": true, "LOOKUP_DISPUTE_AMOUNT_PATH": true,
	"LOOKUP_DISPUTE_STATUS_PATH": true, "LOOKUP_DISPUTE_STATUS_MAP": true,
}

// value is what a setting was set to: a text, or (in a file) pairs or a list.
type value struct {
	text   string
	pairs  []pair
	list   []string
	inFile bool
}

type pair struct{ word, meaning string }

func (v value) set() bool { return v.text != "" || len(v.pairs) > 0 || len(v.list) > 0 }

// reader reads settings and collects what is wrong with them. Its messages
// name the variable, or the field of the file; they never repeat the value.
type reader struct {
	src     provider.Source
	held    map[string]value // settings about bodies, as the operator wrote them
	generic bool
	faults  []error
}

func newReader(src provider.Source) *reader {
	r := &reader{src: src, held: map[string]value{}}
	for setting := range aboutBodies {
		if text := src.Value(setting, ""); text != "" {
			r.held[setting] = value{text: text}
		}
	}
	if src.Value("MAPPING_FILE", "") != "" {
		r.readFile()
	}
	r.chooseProfile()
	return r
}

// chooseProfile sets the profile, and refuses a mixture: paths of another
// shape among those of the profile would be found by chance, if at all.
func (r *reader) chooseProfile() {
	var shape []string
	for setting := range r.held {
		if aboutBodies[setting] {
			shape = append(shape, r.name(setting))
		}
	}
	slices.Sort(shape)
	switch r.own("PROFILE", "") {
	case profileGeneric:
		r.generic = true
		if len(shape) > 0 {
			r.fault("PROFILE", "is generic, which has its own shape of bodies; remove it, or remove %s", strings.Join(shape, ", "))
		}
	case profileCustom:
	case "":
		r.generic = len(shape) == 0
	default:
		r.fault("PROFILE", "is neither generic nor custom")
	}
}

var fieldName = regexp.MustCompile(`^[a-z0-9_]{1,40}$`)

// readFile reads the mapping of a file into held.
func (r *reader) readFile() {
	const setting = "MAPPING_FILE"
	if r.src.File == nil {
		r.fault(setting, "names a file, and this program reads none")
		return
	}
	content, err := r.src.File(setting)
	if err != nil {
		r.faults = append(r.faults, fmt.Errorf("source %s: %w", r.src.Name(), err))
		return
	}
	var fields map[string]jsontext.Value
	if err := provider.Decode(content, &fields); err != nil || fields == nil {
		if err == nil {
			err = errors.New("it is null")
		}
		r.fault(setting, "names a file that is not one JSON object: %v", err)
		return
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		name := strings.ToUpper(field)
		_, known := aboutBodies[name]
		if !known || field != strings.ToLower(field) {
			if !fieldName.MatchString(field) {
				field = "(not a plain word)"
			}
			r.fault(setting, "names a file with a field that is no setting: %s; fields are the names of settings about bodies and lookups in lower case, like type_path", field)
			continue
		}
		if r.held[name].set() {
			r.fault(name, "is set, and so is %s in the file of %s; keep one", field, r.src.Variable(setting))
			continue
		}
		v, err := fileValue(fields[field])
		if err != nil {
			r.fault(setting, "names a file whose %s is %v", field, err)
			continue
		}
		if v.set() {
			r.held[name] = v
		}
	}
}

// fileValue reads a text, a list of texts, or an object of texts.
func fileValue(v jsontext.Value) (value, error) {
	out := value{inFile: true}
	var err error
	switch v.Kind() {
	case '"':
		err = provider.Decode(v, &out.text)
	case '[':
		err = provider.Decode(v, &out.list)
	case '{':
		var m map[string]string
		err = provider.Decode(v, &m)
		for _, word := range slices.Sorted(maps.Keys(m)) {
			out.pairs = append(out.pairs, pair{word, m[word]})
		}
	default:
		err = provider.ErrJSON
	}
	if err != nil {
		return value{}, errors.New("neither a text, nor a list of texts, nor an object of texts")
	}
	return out, nil
}

// name is how the operator knows a setting.
func (r *reader) name(setting string) string {
	if r.held[setting].inFile {
		return strings.ToLower(setting) + " in the file of " + r.src.Variable("MAPPING_FILE")
	}
	return r.src.Variable(setting)
}

func (r *reader) fault(setting, format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf("source %s: %s %s", r.src.Name(), r.name(setting), fmt.Sprintf(format, args...)))
}

func (r *reader) err() error { return errors.Join(r.faults...) }

// own reads a setting that no file has and no profile gives.
func (r *reader) own(setting, otherwise string) string { return r.src.Value(setting, otherwise) }

// get reads a setting about bodies: as written, or as the profile has it.
func (r *reader) get(setting string) value {
	if v := r.held[setting]; v.set() {
		return v
	}
	if r.generic {
		return value{text: genericProfile[setting]}
	}
	return value{}
}

// text reads a setting that is one text.
func (r *reader) text(setting string) string {
	v := r.get(setting)
	if v.pairs != nil || v.list != nil {
		r.fault(setting, "is not one text")
	}
	return v.text
}

func (r *reader) flag(setting string) bool {
	on, err := strconv.ParseBool(r.own(setting, "false"))
	if err != nil {
		r.fault(setting, "is neither true nor false")
	}
	return on
}

func (r *reader) tolerance() time.Duration {
	const usual = 300 // seconds, as in the official libraries
	n, err := strconv.ParseInt(r.own("TOLERANCE", strconv.Itoa(usual)), 10, 32)
	if err != nil || n <= 0 || n > 86400 {
		r.fault("TOLERANCE", "is not a number of seconds from 1 to 86400")
	}
	return time.Duration(n) * time.Second
}

// one reads a setting that is one of a few words; the first is the default.
func (r *reader) one(setting string, words ...string) string {
	text := r.text(setting)
	if text == "" {
		return words[0]
	}
	if !slices.Contains(words, text) {
		r.fault(setting, "is none of %s", strings.Join(words, ", "))
	}
	return text
}
