package daemon

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/umavez/umavez/pkg/failpoint"
)

// armFailpoints arms what the environment asks for, in a program that was
// built to be broken by tests.
func armFailpoints() error {
	if !failpoint.Enabled {
		return nil
	}
	if err := failpoint.Arm(os.Getenv(failpoint.Environment)); err != nil {
		return &ConfigError{fmt.Errorf("%s: %w", failpoint.Environment, err)}
	}
	return nil
}

// showFailpoints answers with the failpoint.State as JSON.
func showFailpoints(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(failpoint.Now())
}

// replaceFailpoints arms what the body says instead of what was armed.
func replaceFailpoints(w http.ResponseWriter, r *http.Request) {
	spec, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err == nil {
		err = failpoint.Arm(string(spec))
	}
	if err != nil {
		text(w, http.StatusBadRequest, err.Error()+"\n")
		return
	}
	showFailpoints(w, r)
}

// shiftClock sets the clock that signatures are judged by wrong, by the
// duration that the body is.
func shiftClock(w http.ResponseWriter, r *http.Request) {
	given, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64))
	var by time.Duration
	if err == nil {
		by, err = time.ParseDuration(string(given))
	}
	if err != nil {
		text(w, http.StatusBadRequest, err.Error()+"\n")
		return
	}
	failpoint.Shift(by)
	text(w, http.StatusOK, by.String()+"\n")
}
