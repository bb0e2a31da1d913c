package pagbank_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/pagbank"
)

// A code needs no signature. With one that does not hold it is refused: ingest
// asks a second time for compressed bodies whose digest differs, and what it
// shows then is not what is read.
func TestACodeWithAWrongSignatureIsRefused(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for value, want := range map[string]provider.Reason{strings.Repeat("0", 64): provider.ReasonMismatch, "x": provider.ReasonMalformed} {
		if label, reason := p.Verify(provider.Request{Header: http.Header{pagbank.TokenHeader: {value}}, Body: []byte(form), Now: clock}); reason != want {
			t.Errorf("%q: %q %q", value, label, reason)
		}
	}
}

func TestNothingIsReadOfAChargeThatNothingHasAuthenticated(t *testing.T) {
	t.Parallel()
	if claims, err := build(t, source()).Facts(&event.Event{Provider: "pagbank", Secret: "unsigned", Body: []byte(paidCharge)}); err == nil {
		t.Errorf("a charge that nothing has authenticated says %+v", claims)
	}
}
