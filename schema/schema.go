// Package schema holds the database's numbered, forward-only migrations.
// They are run by postgres.Migrate under an advisory lock.
package schema

import "embed"

// Files are the migrations, named <number>_<what>.sql.
//
//go:embed *.sql
var Files embed.FS
