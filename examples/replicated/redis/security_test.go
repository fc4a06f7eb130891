// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: nobody comes in without a password, users do what they may, and clients
// that are slow or hostile take little memory. Method: such clients.
package redis

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"varve.example/replicated/check"
	"varve.example/replicated/machine"
	"varve.example/replicated/testca"
)

func writeFile(t testing.TB, mode os.FileMode, text string) string {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "")
	check.OK(t, err)
	defer file.Close()
	check.OK(t, check.Err(file.WriteString(text)))
	check.OK(t, os.Chmod(file.Name(), mode))
	return file.Name()
}

func loadTestUsers(t testing.TB) *Users {
	t.Helper()
	users, err := LoadUsers(writeFile(t, 0o600, "secret\n"), writeFile(t, 0o640, fmt.Sprintf(
		"# users\nreader read %s\nwriter write %s %s # two passwords\n\noperator admin %s\n",
		HashPassword([]byte("r")), HashPassword([]byte("w1")), HashPassword([]byte("w2")), HashPassword([]byte("o")))))
	check.OK(t, err)
	return users
}

func TestPasswordsAndRights(t *testing.T) {
	users := loadTestUsers(t)
	f := serve(t, func(o *Options) { o.Users = users })
	const noPermission = "-NOPERM User %s has no permissions to run the '%s' command"
	c := f.dial()
	for _, request := range []string{"PING", "GET a", "SET a b", "INFO", "CONFIG GET *", "FOO", "CLIENT ID", "NODE.STATUS", "SCAN 0"} {
		c.expect(request, "-"+noAuth)
	}
	if got := c.ask("HELLO 3"); !strings.HasPrefix(got, "-NOAUTH") {
		t.Error(got)
	}
	wrong := "-WRONGPASS invalid username-password pair or user is disabled."
	c.expect("AUTH wrong", wrong)
	c.expect("AUTH reader w1", wrong)
	c.expect("AUTH nobody ''", wrong)
	c.expect("GET a", "-"+noAuth)
	c.expect("AUTH reader r", "+OK")
	c.expect("GET a", "nil")
	c.expect("SET a b", fmt.Sprintf(noPermission, "reader", "set"))
	c.expect("GETDEL a", fmt.Sprintf(noPermission, "reader", "getdel"))
	c.expect("CLIENT LIST", fmt.Sprintf(noPermission, "reader", "client|list"))
	c.expect("ACL WHOAMI", `"reader"`)
	c.expect("AUTH writer w2", "+OK")
	c.expect("SET a b", "+OK")
	c.expect("CONFIG GET *", fmt.Sprintf(noPermission, "writer", "config"))
	c.expect("NODE.STATUS", fmt.Sprintf(noPermission, "writer", "node.*"))
	c.expect("AUTH operator o", "+OK")
	c.expect("NODE.STATUS", `*["NODE.STATUS"]`)
	c.expect("RESET", "+RESET")
	c.expect("GET a", "-"+noAuth)
	c.expect("AUTH secret", "+OK")
	c.expect("NODE.STATUS", `*["NODE.STATUS"]`)
	d := f.dial()
	if got := d.ask("HELLO 3 AUTH writer w1 SETNAME x"); !strings.HasPrefix(got, "%[") {
		t.Error(got)
	}
	d.expect("SET a c", "+OK")
	// A login and commands in one go.
	d = f.dial()
	d.send("AUTH reader r\r\nGET a\r\nSET a d\r\n")
	for _, want := range []string{"+OK", `"c"`, fmt.Sprintf(noPermission, "reader", "set")} {
		d.next(want)
	}
	// Passwords cannot be tried without end.
	d = f.dial()
	for i := 0; i < maxFailed; i++ {
		d.expect("AUTH wrong", wrong)
	}
	if _, closed := d.closed(); !closed {
		t.Error("passwords can be tried without end")
	}
	check.ErrorIf(t, f.server.Stats().FailedLogins != 3+maxFailed, "%v", f.server.Stats())
}

func TestUsersAreReadAgain(t *testing.T) {
	path := writeFile(t, 0o600, "a write "+HashPassword([]byte("1"))+"\nb write "+HashPassword([]byte("1"))+"\n")
	users, err := LoadUsers("", path)
	check.OK(t, err)
	f := serve(t, func(o *Options) { o.Users = users })
	a, b := f.dial(), f.dial()
	a.expect("AUTH a 1", "+OK")
	b.expect("AUTH b 1", "+OK")
	os.WriteFile(path, []byte("a write "+HashPassword([]byte("1"))+"\nb read "+HashPassword([]byte("1"))+"\n"), 0o600)
	check.OK(t, users.Reload())
	a.expect("SET k v", "+OK")
	b.expect("SET k v", "-"+noAuth)
	b.expect("AUTH b 1", "+OK")
	b.expect("GET k", `"v"`)
	os.WriteFile(path, []byte("a\n"), 0o600)
	check.ErrorIf(t, users.Reload() == nil, "a bad file was taken")
	a.expect("SET k v", "+OK")
}

func TestBadUsersAreRefused(t *testing.T) {
	hash := HashPassword([]byte("x"))
	for _, text := range []string{"", "# none\n", "a read\n", "a foo " + hash, "a read sha256:12", "a read " + hash[7:],
		"a read " + hash + "\na write " + hash, "a read " + hash + "z"} {
		check.ErrorIf(t, check.Err(LoadUsers("", writeFile(t, 0o600, text))) == nil, "%q was taken", text)
	}
	check.ErrorIf(t, check.Err(LoadUsers(writeFile(t, 0o600, "\n"), "")) == nil, "an empty password was taken")
	check.ErrorIf(t, check.Err(LoadUsers(writeFile(t, 0o604, "x"), "")) == nil, "a password that all can read was taken")
	if _, err := LoadUsers(writeFile(t, 0o600, "x"), writeFile(t, 0o600, "default read "+hash)); err == nil {
		t.Error("two default users were taken")
	}
}

func TestOnlyLoopbackWithoutAPassword(t *testing.T) {
	users := loadTestUsers(t)
	for address, good := range map[string]bool{
		"127.0.0.1:0": true, "127.9.9.9:0": true, "[::1]:0": true, "localhost:0": true, ":0": false, "0.0.0.0:0": false,
		"[::]:0": false, "192.0.2.1:0": false, "no-such-host.invalid:0": false, "127.0.0.1": false,
	} {
		if err := CheckAddress(address, nil); (err == nil) != good {
			t.Errorf("%s: %v", address, err)
		}
		if err := CheckAddress(address, users); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	check.ErrorIf(t, NewServer(Options{Address: ":0"}, newStore(t)).Serve() == nil, "it listens")
}

func TestConnectionsAreLimited(t *testing.T) {
	f := serve(t, func(o *Options) { o.MaxConnections = 2 })
	a, b := f.dial(), f.dial()
	a.expect("PING", "+PONG")
	b.expect("PING", "+PONG")
	if got, closed := f.dial().closed(); !closed || got != "-ERR max number of clients reached" {
		t.Error(got, closed)
	}
	a.conn.Close()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		c := f.dial()
		c.send("PING\r\n")
		if got, err := c.one(); err == nil && got == "+PONG" {
			break
		}
		check.FatalIf(t, time.Now().After(end), "a connection that was closed still counts")
	}
	check.ErrorIf(t, f.server.Stats().Rejected < 1, "%v", f.server.Stats())
}

func (f *fixture) expectClosed(c *testClient, what string) {
	f.t.Helper()
	begin := time.Now()
	if _, closed := c.closed(); !closed {
		f.t.Errorf("%s: not closed after %v", what, time.Since(begin))
	}
}

func TestTimesAreLimited(t *testing.T) {
	users := loadTestUsers(t)
	f := serve(t, func(o *Options) {
		o.IdleTimeout, o.RequestTimeout, o.AuthTimeout = 300*time.Millisecond, 300*time.Millisecond, 600*time.Millisecond
		o.Users = users
	})
	strange := f.dial()
	idle := f.dial()
	idle.expect("AUTH secret", "+OK")
	slow := f.dial()
	slow.expect("AUTH secret", "+OK")
	go func() {
		for i := 0; i < 100; i++ {
			slow.conn.Write([]byte("x")) // Never a whole request.
			time.Sleep(20 * time.Millisecond)
		}
	}()
	f.expectClosed(idle, "idle")
	f.expectClosed(slow, "slow")
	f.expectClosed(strange, "without a login")
	// Who keeps asking stays.
	busy := f.dial()
	busy.expect("AUTH secret", "+OK")
	for i := 0; i < 30; i++ {
		busy.send("PING\r\nPI")
		time.Sleep(20 * time.Millisecond)
		busy.send("NG\r\n")
		busy.one()
		busy.next("+PONG")
	}
}

func TestRequestsAreLimited(t *testing.T) {
	users := loadTestUsers(t)
	f := serve(t, func(o *Options) { o.MaxRequest, o.Users = 1<<20, users })
	tooLarge := "-ERR Protocol error: the request is too large"
	for _, one := range []struct{ login, request, answer string }{
		{"", "*17\r\n", "-ERR Protocol error: invalid multibulk length"},
		{"", "*2\r\n$4\r\nAUTH\r\n$100000\r\n", "-ERR Protocol error: invalid bulk length"},
		{"", "*3\r\n$4\r\nAUTH\r\n$5000\r\n" + strings.Repeat("x", 5000) + "\r\n$5000\r\n" + strings.Repeat("x", 5000), tooLarge},
		{"AUTH secret\r\n", "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2000000\r\n", "+OK-ERR Protocol error: invalid bulk length"},
		{"AUTH secret\r\n", "*1000\r\n" + strings.Repeat("$10000\r\n"+strings.Repeat("x", 10000)+"\r\n", 106), "+OK" + tooLarge},
		{"AUTH secret\r\n", "*9999999\r\n", "+OK-ERR Protocol error: invalid multibulk length"},
		{"", "POST / HTTP/1.1\r\nHost: x\r\n\r\nSET a b\r\n", "-ERR Protocol error: this is not a server for HTTP"},
	} {
		c := f.dial()
		c.send(one.login + one.request)
		if got, closed := c.closed(); got != one.answer || !closed {
			t.Errorf("%.30q: %q %v", one.request, got, closed)
		}
	}
	c := f.dial()
	c.expect("AUTH secret", "+OK")
	c.expect("SET "+strings.Repeat("k", 60000)+" v", "+OK")
}

func TestLargeKeysAndValuesAreRefused(t *testing.T) {
	f := serve(t, nil)
	c := f.dial()
	set := func(key, value int) string {
		c.send(fmt.Sprintf("*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", key, strings.Repeat("k", key), value, strings.Repeat("v", value)))
		answer, _ := c.one()
		return answer
	}
	if got := set(machine.MaxKeyBytes, machine.MaxValueBytes); got != "+OK" {
		t.Error(got)
	}
	if got := set(machine.MaxKeyBytes+1, 1); got != "-ERR a key has more than 65536 bytes" {
		t.Error(got)
	}
	if got := set(1, machine.MaxValueBytes+1); got != "-"+tooLong {
		t.Error(got)
	}
}

// Announced sizes and slow requests take no memory, and a budget bounds what
// has arrived.
func TestRequestsShareABudget(t *testing.T) {
	f := serve(t, func(o *Options) { o.MaxMemory, o.MaxAnswer = 8<<20, 1<<20 })
	var clients []*testClient
	for i := 0; i < 100; i++ {
		c := f.dial()
		c.send("*1000\r\n$16000000\r\nabc")
		clients = append(clients, c)
	}
	time.Sleep(100 * time.Millisecond)
	if used := f.server.Stats().Memory; used > 1<<20 {
		t.Errorf("%d bytes for sizes that were announced", used)
	}
	refused := map[*testClient]bool{}
	for i := 0; i < 20; i++ {
		c := f.dial()
		go c.conn.Write([]byte("*2\r\n$3\r\nGET\r\n$2000000\r\n" + strings.Repeat("x", 1<<20)))
		clients = append(clients, c)
	}
	time.Sleep(500 * time.Millisecond)
	if used := f.server.Stats().Memory; used > 8<<20 {
		t.Errorf("%d bytes are used", used)
	}
	for end := time.Now().Add(time.Minute); len(refused) == 0 && time.Now().Before(end); {
		for _, c := range clients[100:] {
			c.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			if _, closed := c.closed(); closed {
				refused[c] = true
			}
		}
	}
	check.ErrorIf(t, len(refused) == 0 || len(refused) == 20, "%d of 20 were refused", len(refused))
	for _, c := range clients {
		c.conn.Close()
	}
	f.settle("at the end", 0, 0)
	f.dial().expect("PING", "+PONG")
}

// A client that does not read its answers is closed, and held little until then.
func TestClientsThatDoNotReadAreClosed(t *testing.T) {
	f := serve(t, func(o *Options) {
		o.WriteTimeout, o.MaxMemory, o.MaxAnswer = 500*time.Millisecond, 64<<20, 16<<20
	})
	f.dial().expect("SETRANGE large 3000000 x", ":3000001")
	c := f.dial()
	c.conn.(*net.TCPConn).SetReadBuffer(4096)
	go func() {
		for i := 0; i < 1000; i++ {
			if _, err := c.conn.Write([]byte(strings.Repeat("GET large\r\n", 100))); err != nil {
				return
			}
		}
	}()
	most := int64(0)
	for end := time.Now().Add(time.Minute); f.server.Stats().ClosedForLimits == 0; time.Sleep(10 * time.Millisecond) {
		most = max(most, f.server.Stats().Memory)
		check.FatalIf(t, time.Now().After(end), "it is not closed")
	}
	check.ErrorIf(t, most > 32<<20, "%d bytes were held", most)
	f.settle("at the end", 0, 0)
}

func TestAnswersAreLimited(t *testing.T) {
	f := serve(t, func(o *Options) { o.MaxAnswer = 4 << 20 })
	c := f.dial()
	c.expect("SETRANGE large 3000000 x", ":3000001")
	c.expect("MGET large large", "-ERR the answer is larger than 4194304 bytes")
	// Each for itself is allowed.
	c.send("GET large\r\nGET large\r\nGET nothing\r\nSTRLEN large\r\n")
	for _, size := range []int{3000001, 3000001, 3, 8} {
		if got, err := c.one(); err != nil || len(got) < size {
			t.Fatalf("%d bytes: %v", len(got), err)
		}
	}
	if got := c.ask("GET large"); len(got) < 3000001 {
		t.Error(len(got))
	}
}

func TestCloseWaitsForCommandsUnderWay(t *testing.T) {
	f := serve(t, nil)
	f.store.pause = make(chan struct{})
	c, idle := f.dial(), f.dial()
	idle.expect("PING", "+PONG")
	c.send("SET a b\r\n")
	time.Sleep(100 * time.Millisecond)
	closed := make(chan struct{})
	go func() {
		f.server.Close()
		close(closed)
	}()
	f.expectClosed(idle, "idle")
	close(f.store.pause)
	c.next("+OK")
	<-closed
}

func TestTLS(t *testing.T) {
	ours, theirs := testca.New(t), testca.New(t)
	certFile, keyFile := ours.Issue("node")
	config, certificate, err := LoadTLS(certFile, keyFile, "")
	check.OK(t, err)
	f := serve(t, func(o *Options) { o.TLS, o.AuthTimeout = config, 500*time.Millisecond })
	address := f.server.Addr().String()
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: ours.Pool()})
	check.OK(t, err)
	c := f.wrap(conn)
	c.expect("SET a b", "+OK")
	c.expect("GET a", `"b"`)
	c.expect("SETRANGE large 3000000 x", ":3000001")
	if got := c.ask("GET large"); len(got) < 3000001 {
		t.Error(len(got))
	}
	if _, err := tls.Dial("tcp", address, &tls.Config{RootCAs: theirs.Pool()}); err == nil {
		t.Error("a certificate of another authority was taken")
	}
	if _, err := tls.Dial("tcp", address, &tls.Config{RootCAs: ours.Pool(), MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("an old version was taken")
	}
	// Without TLS there are no answers, and no connection stays.
	plain := f.dial()
	plain.send("PING\r\n")
	f.expectClosed(plain, "without TLS")
	silent := f.dial()
	f.expectClosed(silent, "silent")

	// A new certificate is used for new connections.
	old := conn.ConnectionState().PeerCertificates[0].SerialNumber
	ours.Issue("node")
	check.OK(t, certificate.Reload())
	conn, err = tls.Dial("tcp", address, &tls.Config{RootCAs: ours.Pool()})
	check.OK(t, err)
	check.ErrorIf(t, conn.ConnectionState().PeerCertificates[0].SerialNumber.Cmp(old) == 0, "the old certificate is still in use")
	f.wrap(conn).expect("GET a", `"b"`)
	os.WriteFile(certFile, []byte("damaged"), 0o644)
	check.ErrorIf(t, certificate.Reload() == nil, "a damaged certificate was taken")
	c.expect("GET a", `"b"`)
}

func TestCertificatesOfClients(t *testing.T) {
	ours, theirs := testca.New(t), testca.New(t)
	certFile, keyFile := ours.Issue("node")
	config, _, err := LoadTLS(certFile, keyFile, ours.File())
	check.OK(t, err)
	f := serve(t, func(o *Options) { o.TLS = config })
	for _, one := range []struct {
		from *testca.Authority
		good bool
	}{{ours, true}, {theirs, false}, {nil, false}} {
		settings := &tls.Config{RootCAs: ours.Pool()}
		if one.from != nil {
			pair, err := tls.LoadX509KeyPair(one.from.Issue("client"))
			check.OK(t, err)
			settings.Certificates = []tls.Certificate{pair}
		}
		conn, err := tls.Dial("tcp", f.server.Addr().String(), settings)
		if err == nil { // With TLS 1.3 the refusal comes with the first answer.
			c := f.wrap(conn)
			fmt.Fprint(conn, "PING\r\n")
			_, err = c.one()
		}
		check.ErrorIf(t, (err == nil) != one.good, "%v: %v", one.good, err)
	}
	os.Chmod(keyFile, 0o644)
	if _, _, err := LoadTLS(certFile, keyFile, ""); err == nil {
		t.Error("a key that all can read was taken")
	}
}
