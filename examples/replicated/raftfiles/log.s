// Varve: a key-value storage engine. MIT licence, see LICENSE.

// Without a file of this kind, the compiler wants a body for newLog.
