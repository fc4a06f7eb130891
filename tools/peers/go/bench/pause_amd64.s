// Varve: a key-value storage engine. MIT licence, see LICENSE.

#include "textflag.h"

// func pause()
TEXT ·pause(SB), NOSPLIT, $0-0
	PAUSE
	RET
