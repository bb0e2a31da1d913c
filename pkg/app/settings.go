package app

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/kelseyhightower/envconfig"
)

// validator is a room's configuration.
type validator interface{ Validate() error }

// load reads and checks several configurations and reports all faults at once,
// each once however many rooms read the setting.
func load(configs ...any) error {
	var faults []error
	for _, c := range configs {
		faults = append(faults, settings(c))
		if v, ok := c.(validator); ok {
			faults = append(faults, v.Validate())
		}
	}
	return distinct(faults...)
}

// settings reads one room's configuration. A fault names the variable and
// never shows its value. What cannot be read is put aside while the rest is
// read, so that one fault does not hide the next; it then has its default.
func settings(into any) error {
	names := variables(reflect.TypeOf(into).Elem())
	var faults []error
	var aside []func()
	defer func() {
		for _, restore := range aside {
			restore()
		}
	}()
	putAside := func(name string) {
		if value, set := os.LookupEnv(name); set {
			os.Unsetenv(name)                                        //nolint:errcheck // the name is valid
			aside = append(aside, func() { os.Setenv(name, value) }) //nolint:errcheck // it was set before
		}
	}
	for _, name := range names {
		if os.Getenv(name) == "" {
			putAside(name) // empty is unset
		}
	}
	for range len(names) + 1 {
		err := envconfig.Process("", into)
		var pe *envconfig.ParseError
		if !errors.As(err, &pe) {
			return errors.Join(append(faults, err)...)
		}
		name := nameOf(pe.KeyName, names)
		faults = append(faults, fmt.Errorf("%s is %s", name, unreadable(pe)))
		putAside(name)
	}
	return errors.Join(faults...)
}

// variables are the names of all settings of a struct and of those within it.
func variables(t reflect.Type) (names []string) {
	for f := range t.Fields() {
		if name := f.Tag.Get("envconfig"); name != "" {
			names = append(names, name)
		} else if f.Type.Kind() == reflect.Struct {
			names = append(names, variables(f.Type)...)
		}
	}
	return names
}

// nameOf finds the variable of a key: the key of a struct within a struct has
// the field's name before it.
func nameOf(key string, names []string) string {
	found := ""
	for _, name := range names {
		if strings.HasSuffix(key, name) && len(name) > len(found) {
			found = name
		}
	}
	if found == "" {
		return key
	}
	return found
}

// unreadable says what a value should have been.
func unreadable(e *envconfig.ParseError) string {
	switch {
	case errors.Is(e.Err, strconv.ErrRange):
		return "too large or too small"
	case strings.HasSuffix(e.TypeName, "Duration"):
		return "not a duration such as 72h"
	case strings.HasPrefix(e.TypeName, "int"), strings.HasPrefix(e.TypeName, "uint"):
		return "not a whole number"
	case strings.HasPrefix(e.TypeName, "float"):
		return "not a number"
	case e.TypeName == "bool":
		return "not true or false"
	}
	return "not a " + e.TypeName
}

// distinct joins errors line by line, each line once: rooms of one process
// share settings, and sources share SOURCES.
func distinct(errs ...error) error {
	var kept []error
	seen := map[string]bool{}
	for _, err := range errs {
		for _, one := range parts(err) {
			if text := one.Error(); !seen[text] {
				seen[text] = true
				kept = append(kept, one)
			}
		}
	}
	return errors.Join(kept...)
}

// parts takes joined errors apart: those whose text is that of their parts,
// one a line.
func parts(err error) (out []error) {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || errors.Join(joined.Unwrap()...).Error() != err.Error() {
		return []error{err}
	}
	for _, one := range joined.Unwrap() {
		out = append(out, parts(one)...)
	}
	return out
}
