package virtual

import "net/http"

type realGateway struct{ sources sources }

func (r *realGateway) canLookup() []string         { return nil }
func (r *realGateway) check()                      {}
func (w *world) startReal()                        {}
func (w *world) transport(*proc) http.RoundTripper { return nil }
