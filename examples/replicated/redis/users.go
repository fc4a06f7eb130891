// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
)

// Right is what a user may do. Each right has the ones before it.
type Right int

// The rights.
const (
	rightNone Right = iota
	RightRead
	RightWrite
	RightAdmin // Commands for operators, and those that are refused by default.
)

var rightNames = map[string]Right{"read": RightRead, "write": RightWrite, "admin": RightAdmin}

// User may log in.
type User struct {
	Name   string
	Right  Right
	hashes [][sha256.Size]byte // Of passwords. Each of them is good.
}

// everyone is the user of all connections if there are no passwords.
var everyone = &User{Name: defaultUser, Right: RightAdmin}

const defaultUser = "default" // Of AUTH without a name.

// Users are those of a node. Safe for concurrent use.
type Users struct {
	byName  atomic.Pointer[map[string]*User]
	version atomic.Uint64
	load    func() (map[string]*User, error)
}

// LoadUsers reads a file with a password for the user `default`, a file of
// users, or both. An empty path is no file. The result is nil if there is none.
func LoadUsers(passwordFile, usersFile string) (*Users, error) {
	if passwordFile == "" && usersFile == "" {
		return nil, nil
	}
	u := &Users{load: func() (map[string]*User, error) { return loadUsers(passwordFile, usersFile) }}
	if err := u.Reload(); err != nil {
		return nil, err
	}
	return u, nil
}

// Reload reads the files again. Connections of users that were removed or
// changed have to log in again. After an error nothing has changed.
func (u *Users) Reload() error {
	users, err := u.load()
	if err != nil {
		return err
	}
	if old := u.byName.Load(); old != nil {
		for name, user := range users {
			before := (*old)[name]
			if before != nil && before.Right == user.Right && slices.Equal(before.hashes, user.hashes) {
				users[name] = before // So that its connections stay.
			}
		}
	}
	u.byName.Store(&users)
	u.version.Add(1)
	return nil
}

func (u *Users) get(name string) *User { return (*u.byName.Load())[name] }

// knows says whether there is such a user. Without passwords there is one.
func (u *Users) knows(name string) bool {
	if u == nil {
		return name == defaultUser
	}
	return u.get(name) != nil
}

// check returns the user if the password is one of theirs. The time it takes
// does not depend on how much of a password is right, or on whether there is
// such a user.
func (u *Users) check(name, password []byte) *User {
	user := u.get(string(name))
	known := user
	if known == nil {
		known = &User{hashes: [][sha256.Size]byte{{}}}
	}
	sum := sha256.Sum256(password)
	good := 0
	for i := range known.hashes {
		good |= subtle.ConstantTimeCompare(sum[:], known.hashes[i][:])
	}
	if good == 0 || user == nil {
		return nil
	}
	return user
}

// HashPassword is how a password is written in a file of users.
func HashPassword(password []byte) string {
	sum := sha256.Sum256(password)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// readSecret refuses a file that everyone on the machine can read or change.
func readSecret(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("%s can be read by all users of the machine: use chmod 600", path)
	}
	return os.ReadFile(path)
}

func loadUsers(passwordFile, usersFile string) (map[string]*User, error) {
	users := map[string]*User{}
	if usersFile != "" {
		text, err := readSecret(usersFile)
		if err != nil {
			return nil, err
		}
		if users, err = parseUsers(text); err != nil {
			return nil, fmt.Errorf("%s: %w", usersFile, err)
		}
	}
	if passwordFile != "" {
		text, err := readSecret(passwordFile)
		if err != nil {
			return nil, err
		}
		text = bytes.TrimRight(text, "\r\n")
		if len(text) == 0 {
			return nil, fmt.Errorf("%s has no password", passwordFile)
		}
		if users[defaultUser] != nil {
			return nil, fmt.Errorf("both %s and %s have the user %s", passwordFile, usersFile, defaultUser)
		}
		users[defaultUser] = &User{defaultUser, RightAdmin, [][sha256.Size]byte{sha256.Sum256(text)}}
	}
	if len(users) == 0 {
		return nil, fmt.Errorf("%s has no users", usersFile)
	}
	return users, nil
}

// parseUsers reads lines of NAME RIGHT HASH..., and comments after #.
func parseUsers(text []byte) (map[string]*User, error) {
	users := map[string]*User{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for number := 1; lines.Scan(); number++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) < 3 {
			return nil, fmt.Errorf("line %d is not NAME RIGHT HASH", number)
		}
		user := &User{Name: words[0], Right: rightNames[words[1]]}
		if user.Right == rightNone {
			return nil, fmt.Errorf("line %d: %q is not read, write or admin", number, words[1])
		}
		if users[user.Name] != nil {
			return nil, fmt.Errorf("line %d: the user %q is there already", number, user.Name)
		}
		for _, word := range words[2:] {
			sum, err := hex.DecodeString(strings.TrimPrefix(word, "sha256:"))
			if !strings.HasPrefix(word, "sha256:") || err != nil || len(sum) != sha256.Size {
				return nil, fmt.Errorf("line %d: a password is sha256: and 64 hexadecimal digits", number)
			}
			user.hashes = append(user.hashes, [sha256.Size]byte(sum))
		}
		users[user.Name] = user
	}
	return users, lines.Err()
}
