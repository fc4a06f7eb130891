// Varve: a key-value storage engine. MIT licence, see LICENSE.
package redis

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
)

// Certificate is a node's. It can be read again while it is in use.
type Certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
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
	c.current.Store(&pair)
	return nil
}

func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.current.Load(), nil
}

// SetVersions sets the least version of TLS, 1.2 or 1.3, and which ciphers
// version 1.2 may use, by their names with commas. Those of 1.3 are all good and
// cannot be chosen. Without names it is all that Go recommends but those in CBC
// mode.
func SetVersions(config *tls.Config, least, ciphers string) error {
	switch least {
	case "1.2":
		config.MinVersion = tls.VersionTLS12
	case "1.3":
		config.MinVersion = tls.VersionTLS13
	default:
		return fmt.Errorf("the least version of TLS is 1.2 or 1.3, not %q", least)
	}
	config.CipherSuites = nil
	known := map[string]uint16{}
	for _, suite := range tls.CipherSuites() {
		// The names of those of version 1.3 have no ECDHE.
		if strings.Contains(suite.Name, "_ECDHE_") && !strings.Contains(suite.Name, "_CBC_") {
			known[suite.Name] = suite.ID
			if ciphers == "" {
				config.CipherSuites = append(config.CipherSuites, suite.ID)
			}
		}
	}
	for _, name := range strings.Split(ciphers, ",") {
		if id := known[name]; id != 0 {
			config.CipherSuites = append(config.CipherSuites, id)
		} else if name != "" {
			return fmt.Errorf("%q is not one of the ciphers %s", name, strings.Join(sorted(known), ", "))
		}
	}
	return nil
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
