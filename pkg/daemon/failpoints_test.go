//go:build failpoints

package daemon

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/umavez/umavez/pkg/failpoint"
)

func TestTheAdminListenerShowsAndReplacesWhatIsArmed(t *testing.T) {
	failpoint.Reset()
	t.Cleanup(failpoint.Reset)
	server := httptest.NewServer(build(Config{}).AdminHandler())
	t.Cleanup(server.Close)
	ask := func(method, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/failpoints", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	if code, text := ask("PUT", "queue.ack_sent=lost*1;ingest.parsed=delay:2ms"); code != 200 {
		t.Fatal(code, text)
	}
	_ = failpoint.At(t.Context(), "queue.ack_sent")
	_ = failpoint.At(t.Context(), "queue.ack_sent")
	if code, text := ask("PUT", "nobody=crash"); code != 400 || !strings.Contains(text, "nobody") {
		t.Errorf("an unknown name is answered %d %s", code, text)
	}
	_, text := ask("GET", "")
	var got failpoint.State
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	want := failpoint.State{Armed: []string{"ingest.parsed=delay:2ms"},
		Hits: map[string]int64{"queue.ack_sent": 2}, Fired: map[string]map[string]int64{"queue.ack_sent": {"lost": 1}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if code, _ := ask("PUT", ""); code != 200 || failpoint.Armed("") {
		t.Error("an empty spec does not disarm")
	}
}

func TestAProcessWithASpecThatIsNotUnderstoodDoesNotStart(t *testing.T) {
	t.Setenv(failpoint.Environment, "nobody=crash")
	if err := armFailpoints(); ExitCode(err) != ExitConfig || !strings.Contains(err.Error(), failpoint.Environment) {
		t.Errorf("%v", err)
	}
}
