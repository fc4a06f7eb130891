module varve.example/geth

go 1.22

require github.com/ethereum/go-ethereum v1.14.12

require (
	github.com/holiman/uint256 v1.3.1 // indirect
	golang.org/x/crypto v0.22.0 // indirect
	golang.org/x/sys v0.22.0 // indirect
)
