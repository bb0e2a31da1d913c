package standardwebhooks

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/jsonpath"
)

// name reads the id of a refund or a dispute; "" when none is there.
func name(v jsontext.Value, at jsonpath.Path) (string, error) {
	if at == nil {
		return "", nil
	}
	id, err := at.Text(v)
	if err != nil || !id.Clean() {
		return "", fmt.Errorf("%s is not a clean identifier", at)
	}
	return string(id), nil
}

// whose reads the application's reference and the owner, as far as they are
// there and clean: neither must hold up money. What the settings of the
// source say of the owner comes first.
func (p *Provider) whose(v jsontext.Value, reference, owner jsonpath.Path) (ref, beneficiary string) {
	if reference != nil {
		if t, err := reference.Text(v); err == nil && t.Clean() {
			ref = string(t)
		}
	}
	beneficiary = p.src.Owner(ref)
	if beneficiary == "" && owner != nil {
		if t, err := owner.Text(v); err == nil && t.Clean() {
			beneficiary = string(t)
		}
	}
	return ref, beneficiary
}

var plainWord = regexp.MustCompile(`^([A-Z_]{1,40}|[a-z_]{1,40})$`)

// quoted repeats a status word when it is no more than a word: it tells the
// operator what to add. Digits and mixed cases may be an id or a name.
func quoted(word provider.Text) string {
	if plainWord.MatchString(string(word)) {
		return string(word)
	}
	return "of this payment, which is not a plain word"
}

// splitList reads a comma-separated list.
func splitList(text string) []string {
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}
