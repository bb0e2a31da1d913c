package postgres

// Hook is called with the name of a step between two statements of a critical
// path. Tests use it to cut the work there: an error is returned to the caller
// as if the connection had failed. It is nil in production.
type Hook func(step string) error

// at runs the hook of a step.
func (db *DB) at(step string) error {
	if db.Hook == nil {
		return nil
	}
	return db.Hook(step)
}
