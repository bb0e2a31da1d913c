package powercut

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// model is what must be durable, in the plainest words: names are strings,
// files are numbers, and after each change the whole state is written down.
type model struct {
	now, safe map[string]int // name -> file, of one directory each: "d0/x"
	content   map[int]*versions
	last      int
}

// versions are what a file has been since its last sync: a cut may leave of
// each sector any of them.
type versions struct{ all [][]byte }

func (v *versions) now() []byte { return v.all[len(v.all)-1] }

func (v *versions) write(off int, data []byte) {
	b := slices.Clone(v.now())
	if grow := off + len(data) - len(b); grow > 0 {
		b = append(b, make([]byte, grow)...)
	}
	copy(b[off:], data)
	v.all = append(v.all, b)
}

func (v *versions) truncate(size int) {
	b := slices.Clone(v.now())
	if size < len(b) {
		b = b[:size]
	}
	v.all = append(v.all, append(b, make([]byte, size-len(b))...))
}

func (m *model) syncDir(dir string) {
	in := func(name string, _ int) bool { return filepath.Dir(name) == dir }
	maps.DeleteFunc(m.safe, in)
	for name, file := range m.now {
		if in(name, file) {
			m.safe[name] = file
		}
	}
}

// cut forgets everything that was not synced.
func (m *model) cut() {
	m.now = maps.Clone(m.safe)
	for _, v := range m.content {
		v.all = v.all[:1]
	}
}

func (m *model) syncFile(file int) { v := m.content[file]; v.all = [][]byte{v.now()} }

// TestRandomOperationsLeaveWhatAPlainModelSays does random things through the
// kernel and cuts at random: what is there afterwards must be, byte for byte,
// what the model says.
func TestRandomOperationsLeaveWhatAPlainModelSays(t *testing.T) {
	d, root := mounted(t, Options{})
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		base := filepath.Join(root, fmt.Sprint(round))
		dirs := []string{"d0", "d1"}
		for _, dir := range dirs {
			ok(t, os.MkdirAll(filepath.Join(base, dir), 0o755))
		}
		d.SyncAll()
		m := &model{now: map[string]int{}, safe: map[string]int{}, content: map[int]*versions{}}
		anyName := rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom(dirs).Draw(t, "dir") + "/" + rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "file")
		})
		at := func(name string) string { return filepath.Join(base, name) }
		present := func(rt *rapid.T) string {
			names := slices.Sorted(maps.Keys(m.now))
			if len(names) == 0 {
				rt.Skip("nothing there")
			}
			return rapid.SampledFrom(names).Draw(rt, "name")
		}
		must := func(rt *rapid.T, err error) {
			if err != nil {
				rt.Fatal(err)
			}
		}
		change := func(rt *rapid.T, path string, flags int, do func(*os.File) error) {
			f, err := os.OpenFile(path, os.O_RDWR|flags, 0o644)
			must(rt, err)
			must(rt, do(f))
			must(rt, f.Close())
		}
		compare := func(rt *rapid.T) {
			got := map[string][]byte{}
			must(rt, filepath.WalkDir(base, func(path string, e fs.DirEntry, err error) error {
				if err == nil && !e.IsDir() {
					name, _ := filepath.Rel(base, path)
					got[name], err = os.ReadFile(path)
				}
				return err
			}))
			for name, file := range m.now {
				b, there := got[name]
				if !there || !bytes.Equal(b, m.content[file].now()) {
					rt.Fatalf("%s holds %.60q (there: %v), the model says %.60q", name, b, there, m.content[file].now())
				}
				delete(got, name)
			}
			if len(got) > 0 {
				rt.Fatalf("the model knows nothing of %v", slices.Collect(maps.Keys(got)))
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"create": func(rt *rapid.T) {
				name := anyName.Draw(rt, "name")
				if _, there := m.now[name]; there {
					rt.Skip("exists")
				}
				change(rt, at(name), os.O_CREATE|os.O_EXCL, func(*os.File) error { return nil })
				m.last++
				m.now[name], m.content[m.last] = m.last, &versions{[][]byte{nil}}
			},
			"write": func(rt *rapid.T) {
				name := present(rt)
				off := rapid.IntRange(0, 9000).Draw(rt, "offset")
				data := bytes.Repeat([]byte{rapid.Byte().Draw(rt, "byte")}, rapid.IntRange(1, 9000).Draw(rt, "length"))
				flags := 0
				if rapid.IntRange(0, 3).Draw(rt, "O_SYNC") == 0 {
					flags = os.O_SYNC
				}
				change(rt, at(name), flags, func(f *os.File) error { _, err := f.WriteAt(data, int64(off)); return err })
				if m.content[m.now[name]].write(off, data); flags != 0 {
					m.syncFile(m.now[name])
				}
			},
			"append": func(rt *rapid.T) {
				name := present(rt)
				data := bytes.Repeat([]byte{rapid.Byte().Draw(rt, "byte")}, rapid.IntRange(1, 5000).Draw(rt, "length"))
				change(rt, at(name), os.O_APPEND, func(f *os.File) error { _, err := f.Write(data); return err })
				m.content[m.now[name]].write(len(m.content[m.now[name]].now()), data)
			},
			"truncate": func(rt *rapid.T) {
				name, size := present(rt), rapid.IntRange(0, 12000).Draw(rt, "size")
				change(rt, at(name), 0, func(f *os.File) error { return f.Truncate(int64(size)) })
				m.content[m.now[name]].truncate(size)
			},
			"fsync": func(rt *rapid.T) {
				name := present(rt)
				change(rt, at(name), 0, (*os.File).Sync)
				m.syncFile(m.now[name])
			},
			"fsync of a directory": func(rt *rapid.T) {
				dir := rapid.SampledFrom(dirs).Draw(rt, "dir")
				f, err := os.Open(at(dir))
				must(rt, err)
				must(rt, f.Sync())
				must(rt, f.Close())
				m.syncDir(dir)
			},
			"rename": func(rt *rapid.T) {
				from, to := present(rt), anyName.Draw(rt, "to")
				must(rt, os.Rename(at(from), at(to)))
				if file := m.now[from]; m.now[to] != file { // else two names of one file: nothing happens
					delete(m.now, from)
					m.now[to] = file
				}
			},
			"link": func(rt *rapid.T) {
				from, to := present(rt), anyName.Draw(rt, "to")
				if _, there := m.now[to]; there {
					rt.Skip("exists")
				}
				must(rt, os.Link(at(from), at(to)))
				m.now[to] = m.now[from]
			},
			"unlink": func(rt *rapid.T) {
				name := present(rt)
				must(rt, os.Remove(at(name)))
				delete(m.now, name)
			},
			"cut": func(rt *rapid.T) {
				d.cutAndBack(LoseAll, 0)
				m.cut()
				compare(rt)
			},
			"cut that tears": func(rt *rapid.T) {
				// Names are synced first: which of them are left is free.
				for _, dir := range dirs {
					f, err := os.Open(at(dir))
					must(rt, err)
					must(rt, f.Sync())
					must(rt, f.Close())
					m.syncDir(dir)
				}
				d.cutAndBack(Torn, rapid.Uint64().Draw(rt, "seed"))
				m.cutTorn(rt, at)
			},
			"": compare,
		})
		ok(t, os.RemoveAll(base))
		d.SyncAll()
	})
}

// cutTorn takes over what a tearing cut left, when each sector is one that the
// file has had since its last sync (or zeros where the file grew), and the size
// is possible.
func (m *model) cutTorn(rt *rapid.T, at func(string) string) {
	const sector = 512
	took := map[int]bool{}
	for name, file := range m.now {
		v := m.content[file]
		b, err := os.ReadFile(at(name))
		if err != nil {
			rt.Fatal(err)
		}
		longest := 0
		for _, one := range v.all {
			longest = max(longest, len(one))
		}
		if len(b) > longest {
			rt.Fatalf("%s has %d bytes and never had more than %d", name, len(b), longest)
		}
		for from := 0; from < len(b); from += sector {
			to := min(from+sector, len(b))
			for i := from; i < to; i++ {
				had := b[i] == 0 // beyond an older size
				for _, one := range v.all {
					had = had || i < len(one) && one[i] == b[i]
				}
				if !had {
					rt.Fatalf("%s holds %d at %d, which it never did", name, b[i], i)
				}
			}
		}
		if len(v.all) == 1 && !bytes.Equal(b, v.now()) {
			rt.Fatalf("%s was synced and not changed, and is another now", name)
		}
		if !took[file] {
			took[file] = true
			v.all = [][]byte{b}
		}
	}
	m.safe = maps.Clone(m.now)
	for file := range m.content {
		if !took[file] { // no name leads to it any more
			m.content[file].all = m.content[file].all[:1]
		}
	}
}
