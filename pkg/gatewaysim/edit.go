package gatewaysim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Edit makes a new event of a body: of another type, with an id of its own,
// and with what set says, path by path. A path is made of names and list
// positions joined by dots; in a form, of the names between the brackets
// ("data.id" is data[id]). A value is JSON when it can be read as such, else
// a text.
func (d *Delivery) Edit(body []byte, eventType string, seed uint64, set []string) ([]byte, error) {
	title := gateways[d.Gateway].retitle(eventType, rand.New(rand.NewPCG(seed, streamRequest)))
	change := changeJSON
	if b := bytes.TrimSpace(body); len(b) > 0 && b[0] != '{' && b[0] != '[' {
		change = changeForm
	}
	return change(body, func(assign func(path []string, value any) error) error {
		for _, path := range slices.Sorted(maps.Keys(title)) {
			if err := assign(strings.Split(path, "."), title[path]); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		for _, text := range set {
			path, value, ok := strings.Cut(text, "=")
			if !ok || path == "" {
				return fmt.Errorf("%q is not path=value", text)
			}
			if err := assign(strings.Split(path, "."), parseValue(value)); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		return nil
	})
}

type changes func(assign func(path []string, value any) error) error

func changeJSON(body []byte, all changes) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber() // amounts and ids keep every digit
	var event any
	if err := dec.Decode(&event); err != nil {
		return nil, fmt.Errorf("the model is not JSON: %w", err)
	}
	if err := all(func(path []string, value any) error { return assignJSON(event, path, value) }); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(event)
	return bytes.TrimSpace(out.Bytes()), err
}

// assignJSON sets one value; objects on the way are made where they are
// missing.
func assignJSON(into any, path []string, value any) error {
	last := len(path) == 1
	switch o := into.(type) {
	case map[string]any:
		if last {
			o[path[0]] = value
			return nil
		}
		if o[path[0]] == nil {
			o[path[0]] = map[string]any{}
		}
		return assignJSON(o[path[0]], path[1:], value)
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(o) {
			return fmt.Errorf("the list has no position %q", path[0])
		}
		if last {
			o[i] = value
			return nil
		}
		return assignJSON(o[i], path[1:], value)
	}
	return errors.New("the path leads through a value that is no object and no list")
}

func changeForm(body []byte, all changes) ([]byte, error) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, fmt.Errorf("the model is not a form: %w", err)
	}
	err = all(func(path []string, value any) error {
		name := path[0]
		for _, inner := range path[1:] {
			name += "[" + inner + "]"
		}
		form.Set(name, fmt.Sprint(value))
		return nil
	})
	return []byte(form.Encode()), err
}

func parseValue(text string) any {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil || dec.More() {
		return text
	}
	return v
}
