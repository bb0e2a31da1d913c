package pagpolar

import "github.com/umavez/umavez/pkg/provider/jsonpath"

// path leads to a value in a body or an answer.
type path = jsonpath.Path
