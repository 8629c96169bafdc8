package executor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// program is a command made ready to be started.
type program struct {
	path       string
	args       []string
	env        []string
	dir        string
	scratch    string // dir, if it is a scratch directory to be removed
	credential *syscall.Credential
	user       string // for messages; "" is the node's own
}

// prepare finds and makes all that a command needs. Its errors are for people: each names what is
// wrong and what to do about it.
func prepare(o *startOrder, base []string) (*program, error) {
	if len(o.Args) == 0 || o.Args[0] == "" {
		return nil, errors.New("the command is empty: name a program in run.command.args")
	}
	for _, text := range slices.Concat(o.Args, o.Env) {
		if strings.ContainsRune(text, 0) {
			return nil, fmt.Errorf("argument or variable %q contains a NUL character, which no program can be given", text)
		}
	}
	p := &program{args: o.Args}
	account, err := p.runAs(o.User)
	if err != nil {
		return nil, err
	}
	if err := p.enter(o, account); err != nil {
		return nil, err
	}
	p.env = mergeEnv(base, account.env(), []string{"PWD=" + p.dir}, o.Env, o.Identity)
	p.path, err = findProgram(o.Args[0], valueOf(p.env, "PATH"), p.dir)
	if err != nil {
		p.clean()
		return nil, err
	}
	return p, nil
}

// account is the user that a command runs as; nil is the node's own.
type account struct {
	name, home string
	uid, gid   int
}

// env tells a program whose it is, as a login would: root's home is of no use to another user.
func (a *account) env() []string {
	if a == nil {
		return nil
	}
	return []string{"HOME=" + a.home, "USER=" + a.name, "LOGNAME=" + a.name}
}

func (p *program) runAs(name string) (*account, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	var unknown user.UnknownUserError
	switch {
	case errors.As(err, &unknown):
		return nil, fmt.Errorf("user %q does not exist on this member: create it here, or change run.command.user", name)
	case err != nil:
		return nil, fmt.Errorf("user %q cannot be looked up: %w", name, err)
	}
	a := &account{name: name, home: u.HomeDir}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("user %q: %w", name, err)
	}
	a.uid, a.gid = int(uid), int(gid)
	p.user = name
	if os.Geteuid() != 0 {
		if a.uid == os.Geteuid() {
			return a, nil
		}
		return nil, fmt.Errorf("cannot run as user %q: only a node that runs as root can change the user; run it as root or as %s, or remove run.command.user", name, name)
	}
	p.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of user %q cannot be looked up: %w", name, err)
	}
	for _, group := range groups {
		if id, err := strconv.ParseUint(group, 10, 32); err == nil {
			p.credential.Groups = append(p.credential.Groups, uint32(id))
		}
	}
	return a, nil
}

// enter chooses the working directory, and makes it if it is a scratch directory.
func (p *program) enter(o *startOrder, a *account) error {
	if o.Dir != "" {
		p.dir = o.Dir
		info, err := os.Stat(o.Dir)
		switch {
		case !filepath.IsAbs(o.Dir):
			return fmt.Errorf("directory %q is not an absolute path: begin run.command.dir with /", o.Dir)
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("directory %q does not exist on this member: create it here, or change run.command.dir", o.Dir)
		case err != nil:
			return fmt.Errorf("directory %q cannot be used: %w", o.Dir, err)
		case !info.IsDir():
			return fmt.Errorf("%q is not a directory: change run.command.dir", o.Dir)
		}
		return nil
	}
	parent := o.Scratch
	if p.credential != nil && !passable(parent) {
		parent = os.TempDir() // The data folder is closed to other users, and stays so.
	}
	dir, err := os.MkdirTemp(parent, "attempt-")
	if err != nil {
		return fmt.Errorf("no scratch directory can be made: %w; free space or inodes there, or set run.command.dir", err)
	}
	p.dir, p.scratch = dir, dir
	if p.credential != nil {
		if err := os.Chown(dir, a.uid, a.gid); err != nil {
			p.clean()
			return fmt.Errorf("scratch directory %s cannot be given to user %q: %w", dir, a.name, err)
		}
	}
	return nil
}

// passable says whether every user may pass through all folders of the path.
func passable(path string) bool {
	for {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(path)
		if parent == path {
			return true
		}
		path = parent
	}
}

// clean removes the scratch directory and all that the command left there.
func (p *program) clean() error {
	if p == nil || p.scratch == "" {
		return nil
	}
	return removeTree(p.scratch)
}

// removeTree removes a folder, also one with folders in it that are closed to writing, as programs make
// them to protect a cache.
func removeTree(root string) error {
	err := os.RemoveAll(root)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() && err == nil {
			os.Chmod(path, 0o700) // An error shows when it is removed.
		}
		return nil
	})
	return os.RemoveAll(root)
}

// mergeEnv joins environments; of several entries of one name the last counts.
func mergeEnv(parts ...[]string) []string {
	var env []string
	at := map[string]int{}
	for _, part := range parts {
		for _, entry := range part {
			name, _, _ := strings.Cut(entry, "=")
			if i, ok := at[name]; ok {
				env[i] = entry
				continue
			}
			at[name] = len(env)
			env = append(env, entry)
		}
	}
	return env
}

// foreignEnv is env without our own variables.
func foreignEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool { return strings.HasPrefix(entry, EnvPrefix) })
}

func valueOf(env []string, name string) string {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// findProgram looks for the program as a shell would, in the PATH that the command itself will see,
// but never in a relative folder of it: what runs must not hang on where it runs.
func findProgram(name, path, dir string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, executable(name)
	}
	var refused error
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			continue
		}
		file := filepath.Join(folder, name)
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if _, statErr := os.Stat(file); statErr == nil && refused == nil {
			refused = err
		}
	}
	if refused != nil {
		return "", refused
	}
	return "", fmt.Errorf("program %q was not found on this member: install it here, or write its full path in run.command.args; PATH is %s", name, path)
}

// executable is nil if the file may be run by somebody; whether by the user is seen when it is tried.
func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("program %q does not exist on this member: install it here, or change run.command.args", file)
	case err != nil:
		return fmt.Errorf("program %q cannot be used: %w", file, err)
	case info.IsDir():
		return fmt.Errorf("%q is a directory, not a program: change run.command.args", file)
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("program %q is not executable: chmod +x it, or start it through its interpreter (\"sh\", \"python3\")", file)
	}
	return nil
}

// explain says for people why the kernel refused to start the program.
func (p *program) explain(err error) error {
	who := "the node's user"
	if p.user != "" {
		who = "user " + p.user
	}
	remedy := ""
	switch {
	case errors.Is(err, syscall.ENOENT):
		remedy = "the interpreter that its first line or its header names is not on this member: install it, or change that line"
	case errors.Is(err, syscall.EACCES):
		remedy = fmt.Sprintf("%s may not run it, or not enter %s: change the permissions or run.command.user", who, p.dir)
	case errors.Is(err, syscall.EPERM):
		remedy = fmt.Sprintf("the kernel does not let this node start it as %s: give the node CAP_SETUID and CAP_SETGID, or remove run.command.user", who)
	case errors.Is(err, syscall.ENOEXEC):
		remedy = "it is neither a script with a #! line nor a program for this machine"
	case errors.Is(err, syscall.E2BIG):
		remedy = "its arguments and environment are longer than the kernel takes: hand large input over in a file"
	case errors.Is(err, syscall.ETXTBSY):
		remedy = "it is open for writing: replace programs by renaming, not by overwriting"
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		remedy = "this member has no processes, memory or descriptors left: raise its limits or lower its capacity"
	}
	if remedy == "" {
		return fmt.Errorf("program %q was not started: %w", p.path, err)
	}
	return fmt.Errorf("program %q was not started: %w: %s", p.path, err, remedy)
}
