package process

import (
	"context"
	"fmt"
	"time"
)

// Await tries until try gives no error, ctx ends, limit has passed, or one of
// the processes that are waited for has ended; what names it in the error.
func Await(ctx context.Context, limit time.Duration, what string, try func() error, ps ...*Process) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		for _, p := range ps {
			if err := p.EarlyEnd(); err != nil {
				return err
			}
		}
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s did not come up within %s: %w", what, limit, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
