package powercut

import (
	"syscall"
	"time"
)

// node is an inode. Its number is never used for another one.
type node struct {
	id       uint64
	mode     uint32 // type and permissions
	uid, gid uint32
	mtime    time.Time
	links    uint32 // names it has now
	opened   int    // handles
	link     string // where a symbolic link points to
	content  content
	dir      names
	// addedIn are directories in which it got a name that may be pending.
	addedIn []*node
}

func (n *node) isDir() bool  { return n.mode&syscall.S_IFMT == syscall.S_IFDIR }
func (n *node) isFile() bool { return n.mode&syscall.S_IFMT == syscall.S_IFREG }

// names is what a directory holds: now, and after a cut that takes everything.
type names struct {
	now, safe map[string]*node
	pending   []renaming // since the last sync, in order
}

// renaming is what happens to the names of one directory at once.
type renaming []naming

// naming gives a name to a node, or takes it away when there is none.
type naming struct {
	name string
	n    *node
}

func (r renaming) apply(to map[string]*node) {
	for _, one := range r {
		if one.n == nil {
			delete(to, one.name)
			continue
		}
		to[one.name] = one.n
	}
}

// commit makes the oldest pending changes durable.
func (s *names) commit(most int) {
	for _, r := range s.pending[:most] {
		r.apply(s.safe)
	}
	s.pending = append([]renaming(nil), s.pending[most:]...)
}

// commitNamed commits up to the newest change that gives a name to the node.
func (s *names) commitNamed(n *node) {
	for i := len(s.pending) - 1; i >= 0; i-- {
		for _, one := range s.pending[i] {
			if one.n == n {
				s.commit(i + 1)
				return
			}
		}
	}
}

// commitNames makes the pending names of a node durable, and those of the
// directories that they are in.
func (d *Disk) commitNames(n *node) {
	in := n.addedIn
	n.addedIn = nil
	for _, dir := range in {
		dir.dir.commitNamed(n)
		d.commitNames(dir)
	}
}

// newNode makes an inode without a name.
func (d *Disk) newNode(mode, uid, gid uint32) *node {
	d.lastID++
	n := &node{id: d.lastID, mode: mode, uid: uid, gid: gid, mtime: time.Now()}
	if n.isDir() {
		n.dir = names{now: map[string]*node{}, safe: map[string]*node{}}
	}
	d.nodes[n.id] = n
	return n
}

// rename is all that happens to names: in one directory at once.
func (d *Disk) rename(dir *node, changes ...naming) {
	r := renaming(changes)
	for _, one := range r {
		if old := dir.dir.now[one.name]; old != nil {
			old.links--
		}
		if one.n != nil {
			one.n.links++
			one.n.addedIn = append(one.n.addedIn, dir)
		}
	}
	before := make([]*node, 0, len(r))
	for _, one := range r {
		before = append(before, dir.dir.now[one.name])
	}
	r.apply(dir.dir.now)
	dir.dir.pending = append(dir.dir.pending, r)
	dir.mtime = time.Now()
	for _, old := range before {
		d.drop(old)
	}
}

// drop takes back the space of a file that nobody can reach any more. What is
// durable of it stays: a cut may bring it back.
func (d *Disk) drop(n *node) {
	if n == nil || n.links > 0 || n.opened > 0 || !n.isFile() || n.content.now == nil {
		return
	}
	d.used -= int64(len(n.content.now))
	n.content.now, n.content.dirty = nil, true
}

// lookup finds a name of now.
func (d *Disk) lookup(parent uint64, name string) (dir, n *node, err error) {
	if dir, err = d.node(parent); err != nil {
		return nil, nil, err
	}
	if !dir.isDir() {
		return nil, nil, syscall.ENOTDIR
	}
	if len(name) > 255 {
		return nil, nil, syscall.ENAMETOOLONG
	}
	return dir, dir.dir.now[name], nil
}

// create makes a named node that does not exist.
func (d *Disk) create(parent uint64, name string, mode, uid, gid uint32) (*node, error) {
	dir, n, err := d.lookup(parent, name)
	switch {
	case err != nil:
		return nil, err
	case n != nil:
		return nil, syscall.EEXIST
	case dir.links == 0 && dir.id != rootID:
		return nil, syscall.ENOENT // removed, and still somebody's working directory
	}
	n = d.newNode(mode, uid, gid)
	d.rename(dir, naming{name, n})
	return n, nil
}

// unlink takes a name away: of a directory when isDir is set.
func (d *Disk) unlink(parent uint64, name string, isDir bool) error {
	dir, n, err := d.lookup(parent, name)
	switch {
	case err != nil:
		return err
	case n == nil:
		return syscall.ENOENT
	case isDir && !n.isDir():
		return syscall.ENOTDIR
	case !isDir && n.isDir():
		return syscall.EISDIR
	case isDir && len(n.dir.now) > 0:
		return syscall.ENOTEMPTY
	}
	d.rename(dir, naming{name, nil})
	return nil
}

// link gives a file one more name.
func (d *Disk) link(id, parent uint64, name string) (*node, error) {
	dir, there, err := d.lookup(parent, name)
	if err != nil {
		return nil, err
	}
	n, err := d.node(id)
	switch {
	case err != nil:
		return nil, err
	case n.isDir():
		return nil, syscall.EPERM
	case there != nil:
		return nil, syscall.EEXIST
	}
	d.rename(dir, naming{name, n})
	return n, nil
}

// renameNoReplace is RENAME_NOREPLACE, the only flag that is understood.
const renameNoReplace = 1

// move renames within a directory, or to another one.
func (d *Disk) move(from uint64, name string, to uint64, newName string, flags uint32) error {
	if flags&^renameNoReplace != 0 {
		return syscall.EINVAL
	}
	oldDir, n, err := d.lookup(from, name)
	if err != nil {
		return err
	}
	newDir, there, err := d.lookup(to, newName)
	switch {
	case err != nil:
		return err
	case n == nil:
		return syscall.ENOENT
	case there != nil && flags&renameNoReplace != 0:
		return syscall.EEXIST
	case there == n:
		return nil // two names of one file: POSIX does nothing
	case there != nil && n.isDir() && !there.isDir():
		return syscall.ENOTDIR
	case there != nil && !n.isDir() && there.isDir():
		return syscall.EISDIR
	case there != nil && there.isDir() && len(there.dir.now) > 0:
		return syscall.ENOTEMPTY
	}
	if oldDir == newDir {
		d.rename(oldDir, naming{name, nil}, naming{newName, n})
		return nil
	}
	d.rename(newDir, naming{newName, n})
	d.rename(oldDir, naming{name, nil})
	return nil
}
