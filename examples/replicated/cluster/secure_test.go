// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Goal: with certificates, nodes talk to nodes only, and with users, clients
// have to log in. Method: nodes as an operator starts them, and programs that
// should not come in.
package cluster

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"varve.example/replicated/check"
	"varve.example/replicated/redis"
	"varve.example/replicated/testca"
)

// answers says whether the other side sends anything, or waits for more.
func answers(conn net.Conn) bool {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	conn.Write([]byte(strings.Repeat("c\x00\x01\x02", 1000)))
	count, _ := conn.Read(make([]byte, 100))
	return count > 0
}

func TestNodesTalkToNodesOnly(t *testing.T) {
	t.Parallel()
	ours, theirs := testca.New(t), testca.New(t)
	certFile, keyFile := ours.Issue("node")
	c := newCluster(t, 3, "--peer-ca="+ours.File(), "--peer-cert="+certFile, "--peer-key="+keyFile)
	first, err := dial(c.nodes[0].client, 10*time.Second)
	check.OK(t, err)
	defer first.conn.Close()
	check.OK(t, first.insist("SET", "a", "b"))
	c.nodes[2].kill()
	check.OK(t, first.insist("SET", "a", "c"))
	c.start(c.nodes[2])
	c.await(c.nodes[2])
	if answer, err := ask(c.nodes[2].client, 10*time.Second, "GET", "a"); err != nil || answer != "c" {
		t.Fatal(answer, err)
	}
	c.expectEqual()

	address := c.nodes[0].address
	foreign, err := tls.LoadX509KeyPair(theirs.Issue("node"))
	check.OK(t, err)
	for name, config := range map[string]*tls.Config{
		"no certificate":                        {RootCAs: ours.Pool()},
		"another authority's certificate":       {RootCAs: ours.Pool(), Certificates: []tls.Certificate{foreign}},
		"only another authority is trusted":     {RootCAs: theirs.Pool(), Certificates: []tls.Certificate{foreign}},
		"all are trusted, without certificates": {InsecureSkipVerify: true},
	} {
		conn, err := tls.Dial("tcp", address, config)
		if err == nil && answers(conn) { // The refusal may come with the first read.
			t.Errorf("%s: there is an answer", name)
		}
	}
	conn, err := net.Dial("tcp", address)
	if err == nil && answers(conn) {
		// It may be an alert of TLS, but no more.
		t.Log("an answer without TLS")
	}
	if answer, err := ask(c.nodes[0].client, 10*time.Second, "GET", "a"); err != nil || answer != "c" {
		t.Fatal(answer, err)
	}
}

func TestClientsLogInOverTLS(t *testing.T) {
	t.Parallel()
	authority := testca.New(t)
	certFile, keyFile := authority.Issue("clients")
	users := filepath.Join(t.TempDir(), "users")
	setUsers := func(password string) {
		text := "operator admin " + redis.HashPassword([]byte(password)) + "\n"
		check.OK(t, os.WriteFile(users, []byte(text), 0o600))
	}
	setUsers("first")
	c := &cluster{t: t, dir: t.TempDir(), flags: []string{"--tls-cert=" + certFile, "--tls-key=" + keyFile, "--users-file=" + users}}
	p := c.add()
	p.first, p.create = fmt.Sprintf("--peers=%d=%s", p.id, p.address), true
	c.start(p)
	defer p.kill()
	login := func(password string) (*client, error) {
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", p.client, &tls.Config{RootCAs: authority.Pool()})
		if err != nil {
			return nil, err
		}
		one := &client{conn, bufio.NewReader(conn), 30 * time.Second}
		_, err = one.do("AUTH", "operator", password)
		return one, err
	}
	var one *client
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var err error
		if one, err = login("first"); err == nil {
			if err = one.insist("SET", "a", "b"); err == nil {
				break
			}
		}
		if time.Now().After(end) {
			c.showLogs()
			t.Fatal(err)
		}
	}
	if answer, err := one.do("GET", "a"); err != nil || answer != "b" {
		t.Fatal(answer, err)
	}
	if answer, err := ask(p.client, 10*time.Second, "PING"); err == nil {
		t.Fatal("an answer without TLS:", answer)
	}
	if _, err := login("wrong"); err == nil || !isRefusal(err) {
		t.Fatal(err)
	}
	// A new password, without a restart.
	setUsers("second")
	p.command.Process.Signal(syscall.SIGHUP)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if two, err := login("second"); err == nil {
			if answer, err := two.do("GET", "a"); err != nil || answer != "b" {
				t.Fatal(answer, err)
			}
			break
		}
		check.FatalIf(t, time.Now().After(end), "the file was not read again")
	}
	check.ErrorIf(t, check.Err(one.do("GET", "a")) == nil, "the old password's connection is still logged in")
}
