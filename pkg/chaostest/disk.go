package chaostest

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
)

// mountDisks puts the data of both servers on disks of a limited size, where
// this process may mount some; otherwise full disks are not among the faults.
func (w *world) mountDisks() {
	for name, size := range map[string]string{"postgres": "3g", "broker": "1g"} {
		dir := filepath.Join(w.dir, "disk-"+name)
		if os.Mkdir(dir, 0o755) == nil && mount(dir, "size="+size+",mode=0755") == nil {
			w.disks[name] = dir
		}
	}
}

func (w *world) unmountDisks() {
	for _, dir := range w.disks {
		unmount(dir)
	}
}

// fill leaves no byte free on a disk; the returned function gives the room
// back.
func fill(dir string) (free func(), err error) {
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // what matters is that it takes room
	free = func() { _ = os.Remove(path) }
	// A whole block at a time, then the crumbs.
	for _, size := range []int{8 << 20, 64 << 10, 4 << 10} {
		block := make([]byte, size)
		for {
			if _, err = f.Write(block); err != nil {
				break
			}
		}
		if !errors.Is(err, syscall.ENOSPC) {
			free()
			return nil, err
		}
	}
	return free, nil
}

func addrOf(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", err
	}
	return u.Host, nil
}
