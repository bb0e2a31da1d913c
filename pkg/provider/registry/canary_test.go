package registry

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// TestNoPrintedFormContainsASecret puts one canary into every secret and
// prints everything in every way that a program prints things.
func TestNoPrintedFormContainsASecret(t *testing.T) {
	t.Parallel()
	set := mustLoad(t, full())
	var things []any
	things = append(things, set, set.current.Load())
	for _, e := range set.Entries() {
		e := e
		things = append(things, e, &e, e.Source, &e.Source, e.Provider, e.Source.WebhookSecrets, e.Source.APIKey, struct{ hidden any }{e.Provider})
	}
	core, logs := observer.New(zapcore.DebugLevel)
	var encoded strings.Builder
	enc := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&encoded), zapcore.DebugLevel)
	logger := zap.New(zapcore.NewTee(core, enc))
	check := func(how string, v any, text string) {
		if strings.Contains(text, "canary") {
			t.Errorf("%s of %T contains a secret", how, v)
		}
	}
	for _, v := range things {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			check(format, v, fmt.Sprintf(format, v))
		}
		b, err := json.Marshal(v)
		check("JSON", v, string(b)+fmt.Sprint(err))
		logger.Info("x", zap.Any("v", v), zap.Reflect("r", v))
		check("zap", v, encoded.String())
		encoded.Reset()
	}
	if logs.Len() != len(things) {
		t.Errorf("%d lines for %d things", logs.Len(), len(things))
	}
	s := full()
	for variable := range s {
		if slices.Contains([]string{"SOURCES", "ENVIRONMENT"}, variable) {
			continue
		}
		broken := full()
		broken[variable] = "canary\x00\n{(["
		if _, err := Load(broken.getenv); err != nil {
			check("the error about "+variable, err, err.Error())
			check("the error about "+variable, err, fmt.Sprintf("%+v %#v", err, err))
		}
	}
}
