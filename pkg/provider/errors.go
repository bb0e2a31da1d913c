package provider

import (
	"errors"
	"fmt"
	"time"
)

// The outcomes of a lookup that are not an answer.
var (
	// ErrNotFound: the gateway does not know the payment (yet).
	ErrNotFound = errors.New("payment not found at the gateway")
	// ErrMismatch: the answer is about something else than what was asked.
	ErrMismatch = errors.New("lookup answer does not match the payment asked for")
	// ErrUnreadable: the answer has a shape or a value that the contract and
	// the settings do not cover.
	ErrUnreadable = errors.New("lookup answer not understood")
	// ErrRefused: the gateway refused our key (401, 403).
	ErrRefused = errors.New("gateway refused the API key")
)

// RetryError is a passing failure: 429, 5xx, time-out.
type RetryError struct {
	Status int           // HTTP status; 0 when there was no answer
	After  time.Duration // what Retry-After asked for; 0 when it did not
	Err    error
}

func (e *RetryError) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("gateway answered %d", e.Status)
	}
	return "no answer from the gateway: " + e.Err.Error()
}

func (e *RetryError) Unwrap() error { return e.Err }
