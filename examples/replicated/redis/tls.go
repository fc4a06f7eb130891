// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
)

// Certificate is a node's. It can be read again while it is in use.
type Certificate struct {
	certFile, keyFile string
	mutex             sync.Mutex
	current           *tls.Certificate
}

// Reload reads the files again. After an error nothing has changed.
func (c *Certificate) Reload() error {
	key, err := readSecret(c.keyFile)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(c.certFile)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(text, key)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", c.certFile, c.keyFile, err)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.current = &pair
	return nil
}

func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.current, nil
}

// LoadTLS reads a certificate and its key. With a file of authorities, clients
// must have certificates of one of them.
func LoadTLS(certFile, keyFile, clientAuthorities string) (*tls.Config, *Certificate, error) {
	certificate := &Certificate{certFile: certFile, keyFile: keyFile}
	if err := certificate.Reload(); err != nil {
		return nil, nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate.get}
	if clientAuthorities != "" {
		text, err := os.ReadFile(clientAuthorities)
		if err != nil {
			return nil, nil, err
		}
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !config.ClientCAs.AppendCertsFromPEM(text) {
			return nil, nil, fmt.Errorf("%s has no certificates", clientAuthorities)
		}
	}
	return config, certificate, nil
}
