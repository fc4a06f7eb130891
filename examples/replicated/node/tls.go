// Varve: a key-value storage engine. MIT licence, see LICENSE.
package node

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
)

// PeerTLS are files for connections between nodes: the authority of all nodes'
// certificates, this node's certificate and its key. Without them, connections
// are neither encrypted nor authenticated.
type PeerTLS struct {
	CAFile, CertFile, KeyFile string
	// If set: changes the configuration, such as its least version.
	Adjust func(*tls.Config) error
}

func (p PeerTLS) enabled() bool { return p.CAFile+p.CertFile+p.KeyFile != "" }

// transport is for all connections between nodes. A node takes connections
// from all that have a certificate of the authority, and connects
// to nodes whose certificate has their address.
func (p PeerTLS) transport() (transport, error) {
	plain := plainTransport()
	if !p.enabled() {
		return plain, nil
	}
	if p.CAFile == "" || p.CertFile == "" || p.KeyFile == "" {
		return plain, errors.New("of the authority, the certificate and the key for other nodes, one is missing")
	}
	text, err := os.ReadFile(p.CAFile)
	if err != nil {
		return plain, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(text) {
		return plain, fmt.Errorf("%s has no certificates", p.CAFile)
	}
	pair, err := tls.LoadX509KeyPair(p.CertFile, p.KeyFile)
	if err != nil {
		return plain, err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		RootCAs: authorities, ClientCAs: authorities, ClientAuth: tls.RequireAndVerifyClientCert,
	}
	if p.Adjust != nil {
		if err := p.Adjust(config); err != nil {
			return plain, err
		}
	}
	return transport{
		dial: func(address string) (net.Conn, error) {
			return tls.DialWithDialer(newDialer(), "tcp", address, config)
		},
		listen: func(address string) (net.Listener, error) {
			listener, err := plain.listen(address)
			if err != nil {
				return nil, err
			}
			return tls.NewListener(listener, config), nil
		},
	}, nil
}
