package powercut

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// mounted gives a test a disk of its own and where it is.
func mounted(t *testing.T, o Options) (*Disk, string) {
	t.Helper()
	d := New(o)
	m, err := d.Mount(t.TempDir())
	NeedMount(t, err)
	t.Cleanup(func() {
		if err := m.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return d, m.Dir
}

func ok(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// put writes a file and closes it.
func put(t *testing.T, path, text string, flags int, sync bool) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flags, 0o644)
	ok(t, err)
	_, err = f.WriteString(text)
	ok(t, err)
	if sync {
		ok(t, f.Sync())
	}
	ok(t, f.Close())
}

func syncDir(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(dir)
	ok(t, err)
	ok(t, f.Sync(), f.Close())
}

// is checks what a file holds; "-" is no file.
func is(t *testing.T, path, want string) {
	t.Helper()
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		text = []byte("-")
	case err != nil:
		t.Fatal(err)
	}
	if string(text) != want {
		t.Errorf("%s holds %.40q, want %.40q", filepath.Base(path), text, want)
	}
}

func (d *Disk) cutAndBack(mode Mode, seed uint64) {
	d.Cut(mode, seed)
	d.Reopen()
}

func TestWhatWasNotSyncedIsGone(t *testing.T) {
	t.Parallel()
	d, dir := mounted(t, Options{})
	at := func(name string) string { return filepath.Join(dir, name) }
	put(t, at("named and synced"), "old", 0, true)
	put(t, at("named"), "old", 0, false)
	ok(t, os.Mkdir(at("dir"), 0o755), os.Mkdir(at("lost dir"), 0o755))
	put(t, at("to be renamed"), "moves", 0, true)
	put(t, at("to be removed"), "stays", 0, true)
	put(t, at("over"), "under", 0, true)
	syncDir(t, dir)
	put(t, at("synced"), "content without a name", 0, true)
	put(t, at("named and synced"), "newer", 0, false)
	put(t, at("by O_SYNC"), "nameless too", syscall.O_SYNC, false)
	put(t, at("dir/inside"), "synced", syscall.O_DSYNC, false)
	syncDir(t, at("dir"))
	ok(t, os.Mkdir(at("dir/made late"), 0o755), os.Remove(at("lost dir")))
	ok(t, os.Rename(at("to be renamed"), at("renamed")), os.Remove(at("to be removed")), os.Rename(at("synced"), at("over")))
	ok(t, os.Truncate(at("named and synced"), 1))
	is(t, at("named and synced"), "n")
	is(t, at("over"), "content without a name")
	d.cutAndBack(LoseAll, 0)
	for name, want := range map[string]string{
		"named and synced": "old", "named": "", "synced": "-", "by O_SYNC": "-", "dir/inside": "synced", "renamed": "-",
		"to be renamed": "moves", "to be removed": "stays", "over": "under", "dir/made late/x": "-",
	} {
		is(t, at(name), want)
	}
	for name, there := range map[string]bool{"lost dir": true, "dir": true, "dir/made late": false} {
		if _, err := os.Stat(at(name)); (err == nil) != there {
			t.Errorf("%s: %v, want it there: %v", name, err, there)
		}
	}
}

func TestSyncNamesMakesTheNameOfASyncedFileDurable(t *testing.T) {
	t.Parallel()
	d, dir := mounted(t, Options{SyncNames: true})
	at := func(name string) string { return filepath.Join(dir, name) }
	ok(t, os.MkdirAll(at("a/b"), 0o755))
	put(t, at("a/b/synced"), "here", 0, true)
	put(t, at("a/b/later"), "not here", 0, false)
	put(t, at("a/b/opened O_SYNC"), "here too", syscall.O_SYNC, false)
	put(t, at("last"), "no", 0, false)
	d.cutAndBack(LoseAll, 0)
	is(t, at("a/b/synced"), "here")
	is(t, at("a/b/opened O_SYNC"), "here too")
	is(t, at("a/b/later"), "") // named before the one that was synced
	is(t, at("last"), "-")
}

func TestEveryOperationFailsWithoutPower(t *testing.T) {
	t.Parallel()
	d, dir := mounted(t, Options{})
	path := filepath.Join(dir, "file")
	f, err := os.Create(path)
	ok(t, err)
	defer f.Close() //nolint:errcheck // without power
	_, err = f.WriteString("before")
	ok(t, err)
	d.Cut(LoseAll, 0)
	_, write := f.WriteString("x")
	_, read := f.ReadAt(make([]byte, 1), 0)
	_, stat := os.Stat(path)
	_, create := os.Create(path + "2")
	_, list := os.ReadDir(dir)
	for what, err := range map[string]error{
		"write": write, "read": read, "stat": stat, "create": create, "list": list, "sync": f.Sync(), "truncate": f.Truncate(0),
		"mkdir": os.Mkdir(path+"3", 0o755), "remove": os.Remove(path), "rename": os.Rename(path, path+"4"), "link": os.Link(path, path+"5"),
	} {
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s without power: %v, want EIO", what, err)
		}
	}
	d.Reopen()
	// What was open then is lost for ever, whatever its file's fate.
	if _, err := f.WriteString("x"); !errors.Is(err, syscall.EIO) {
		t.Errorf("write through a file of before: %v, want EIO", err)
	}
	put(t, path, "again", 0, true)
	is(t, path, "again")
}

// A sync that was under way when the power went promised nothing, and must not
// say that it did.
func TestASyncThatTheCutMetFails(t *testing.T) {
	t.Parallel()
	d, dir := mounted(t, Options{SyncNames: true, SyncDelay: 100 * time.Millisecond})
	f, err := os.Create(filepath.Join(dir, "file"))
	ok(t, err)
	defer f.Close() //nolint:errcheck // without power
	_, err = f.WriteString("x")
	ok(t, err)
	said := make(chan error)
	go func() { said <- f.Sync() }()
	time.Sleep(20 * time.Millisecond)
	d.Cut(LoseAll, 0)
	if err := <-said; !errors.Is(err, syscall.EIO) {
		t.Errorf("the sync said %v, want EIO", err)
	}
	d.Reopen()
	is(t, filepath.Join(dir, "file"), "-")
}

// The same file is read before and after a cut, under the same mount, by a
// kernel that would remember its pages, size, name and list if it were let.
func TestNothingOfTheKernelsSurvivesACut(t *testing.T) {
	t.Parallel()
	d, dir := mounted(t, Options{})
	path := filepath.Join(dir, "file")
	old := bytes.Repeat([]byte("old "), 4096)
	put(t, path, string(old), 0, true)
	syncDir(t, dir)
	for round := range 5 {
		fresh := bytes.Repeat([]byte("new!"), 4096*(round+1))
		ok(t, os.WriteFile(path, fresh, 0o644), os.WriteFile(path+"2", fresh, 0o644))
		is(t, path, string(fresh))
		is(t, path+"2", string(fresh))
		d.cutAndBack(LoseAll, 0)
		is(t, path, string(old))
		is(t, path+"2", "-")
		if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
			t.Errorf("the directory lists %v (%v), want one file", list, err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != int64(len(old)) {
			t.Errorf("stat says %v %v", info, err)
		}
	}
	// Nobody can write behind our back through shared memory.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	ok(t, err)
	defer f.Close() //nolint:errcheck // only mapped
	if _, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		t.Error("a shared writable mapping was granted")
	}
}

func TestAnUnlinkedFileLivesWhileItIsOpenAndALinkIsOneFile(t *testing.T) {
	t.Parallel()
	d, dir := mounted(t, Options{SpaceLimit: 1 << 20})
	path := filepath.Join(dir, "file")
	put(t, path, "text", 0, true)
	ok(t, os.Link(path, path+"2"), os.Symlink("file2", path+"3"))
	put(t, path+"2", "TEXT", 0, false)
	is(t, path, "TEXT")
	is(t, path+"3", "TEXT")
	f, err := os.Open(path)
	ok(t, err)
	ok(t, os.Remove(path), os.Remove(path+"2"))
	text := make([]byte, 4)
	if _, err := f.ReadAt(text, 0); err != nil || string(text) != "TEXT" {
		t.Errorf("read %q, %v from an unlinked file", text, err)
	}
	if used := d.Used(); used != 4 {
		t.Errorf("%d bytes used while it is open", used)
	}
	ok(t, f.Close())
	for deadline := time.Now().Add(5 * time.Second); d.Used() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) { // the kernel releases after close has returned
			t.Fatalf("%d bytes used after the last close", d.Used())
		}
	}
}

func TestAFullDiskRefusesAndTakesAgainWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	d, dir := mounted(t, Options{SpaceLimit: 100 << 10})
	put(t, filepath.Join(dir, "big"), string(make([]byte, 90<<10)), 0, true)
	small := filepath.Join(dir, "small")
	if err := os.WriteFile(small, make([]byte, 20<<10), 0o644); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("beyond the limit: %v, want ENOSPC", err)
	}
	put(t, filepath.Join(dir, "big"), "in place", 0, true)
	if d.Stats().Full == 0 {
		t.Error("no refusal was counted")
	}
	ok(t, os.Remove(filepath.Join(dir, "big")), os.WriteFile(small, make([]byte, 20<<10), 0o644))
}

// As on Linux: who asks again after a failed fsync hears success, and has lost.
func TestAFailedSyncIsNotRepairedByTheNext(t *testing.T) {
	t.Parallel()
	d, dir := mounted(t, Options{SyncNames: true})
	path := filepath.Join(dir, "file")
	put(t, path, "old", 0, true)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	ok(t, err)
	defer f.Close() //nolint:errcheck // synced
	_, err = f.WriteString("new")
	ok(t, err)
	d.Set(func(o *Options) { o.SyncFails = 1 })
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("sync: %v, want EIO", err)
	}
	d.Set(func(o *Options) { o.SyncFails = 0 })
	ok(t, f.Sync())
	is(t, path, "new")
	d.cutAndBack(LoseAll, 0)
	is(t, path, "old")
}

// Over many seeds every kind of remains must occur, and nothing else.
func TestACutLeavesAnyPartOfWhatWasNotSynced(t *testing.T) {
	t.Parallel()
	const page = 4096
	seen := map[Mode]map[string]int{Reorder: {}, Torn: {}}
	for mode, kinds := range seen {
		for seed := range uint64(200) {
			d := New(Options{})
			n, err := d.create(rootID, "file", syscall.S_IFREG|0o644, 0, 0)
			ok(t, err)
			h := d.files[d.newHandle(n, 0)]
			ok(t, d.write(h, 0, bytes.Repeat([]byte("0"), 2*page)))
			d.SyncAll()
			ok(t, d.write(h, 0, bytes.Repeat([]byte("1"), page)), d.write(h, 0, bytes.Repeat([]byte("2"), page)),
				d.write(h, 3*page, bytes.Repeat([]byte("3"), page)))
			d.cutAndBack(mode, seed)
			now := d.nodes[n.id].content.now
			unit := page
			if mode == Torn {
				unit = 512
			}
			first := map[byte]bool{}
			for at := 0; at < len(now); at += unit {
				sector := now[at : at+unit]
				if !bytes.Equal(sector, bytes.Repeat(sector[:1], unit)) {
					t.Fatalf("%s, seed %d: a torn sector at %d", mode, seed, at)
				}
				wants := map[int]string{0: "012", 1: "0", 2: "\x00", 3: "3\x00"}[at/page]
				if !bytes.Contains([]byte(wants), sector[:1]) {
					t.Fatalf("%s, seed %d: %q at %d", mode, seed, sector[0], at)
				}
				if at < page {
					first[sector[0]] = true
				}
				kinds[string(sector[:1])+" in page "+string(rune('0'+at/page))]++
			}
			if len(first) > 1 {
				kinds["mixed page"]++
			}
			kinds["size "+string(rune('0'+len(now)/page))]++
		}
		for _, want := range []string{"0 in page 0", "1 in page 0", "2 in page 0", "3 in page 3", "\x00 in page 3", "size 2", "size 4"} {
			if kinds[want] == 0 {
				t.Errorf("%s: %q never happened: %v", mode, want, kinds)
			}
		}
		if mixed := kinds["mixed page"] > 0; mixed != (mode == Torn) {
			t.Errorf("%s: mixed pages %v", mode, mixed)
		}
	}
}

func TestASeedLeavesTheSame(t *testing.T) {
	t.Parallel()
	leave := func(seed uint64) string {
		d := New(Options{})
		for _, name := range []string{"a", "b", "c"} {
			n, err := d.create(rootID, name, syscall.S_IFREG|0o644, 0, 0)
			ok(t, err)
			ok(t, d.write(d.files[d.newHandle(n, 0)], 0, bytes.Repeat([]byte(name), 9000)))
		}
		d.cutAndBack(Torn, seed)
		var text []byte
		for _, name := range []string{"a", "b", "c"} {
			if n := d.nodes[rootID].dir.now[name]; n != nil {
				text = append(append(text, name...), n.content.now...)
			}
		}
		return string(text)
	}
	if leave(7) != leave(7) {
		t.Error("one seed left two things")
	}
	if leave(7) == leave(8) && leave(8) == leave(9) {
		t.Error("three seeds left the same")
	}
}
