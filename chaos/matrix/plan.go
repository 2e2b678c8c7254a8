package matrix

// plan is what is to be shown: each kind of fault against each primitive, with the
// right behaviour in letters.
//
//	k  keeps: the caller sees at most a delay
//	r  the server said that it did not run it: asked again until the wait ends
//	a  in doubt: asked again, or an error that says so, and cleared up
//	f  fails at once with a typed error, and leaves nothing
//	l  lost: told by the end of the window; Unlock says ErrNotHeld, a successor is spared
//	e  the lease decides: others get in at its end, not before
//	p  found by asking, without a message
//	i  the state is gone
//	q  the queue is made anew: waiters stand in it again by themselves
//	v  a grant that comes too late is void
//	u  what was taken in part goes back
//	d  a stated limit: exclusion is not promised here
//
// The numbers are the invariants that decide. An empty cell does not apply.
var plan = []struct {
	row, fault string
	cells      [9]string // in the order of Columns
}{
	{"A1", "kill -9, restart empty", [9]string{"d l:1*,11", "d l q:8,7", "d l:2*,11", "i:3*,4", "i:3*,4", "i:5", "d l u:16", "k with delayed restart, d without:1", "d l:6"}},
	{"A2", "kill -9, restart with AOF", [9]string{"k a:1,17", "k a:8", "k a:2", "k a:4", "k a:4", "k a:5", "k a:16", "k:1", "k a:6"}},
	{"A3", "power loss", [9]string{"d l:1*,11", "d q:8", "d l:2*", "d:3*,4*", "d e:3*,4", "d:5", "d l:16", "k (fsync always):1", "d l:6"}},
	{"A4", "Redis frozen < lease", [9]string{"a:9,1", "a:9,8", "a:9,2", "a:9,4", "a:9,4", "a:9,5", "a u:16", "k:7", "a:6,9"}},
	{"A5", "Redis frozen > lease", [9]string{"l e a:11,9", "l e q:8,11", "l e:2,11", "a:4,9", "l e:4,11", "a:5", "l u:16", "k (minority):1", "l e:6,11"}},
	{"A6", "LOADING", [9]string{"r:7,11", "r:8,7", "r:2,7", "r:4", "r:4", "r:5,7", "r:16", "k:1", "r:6"}},
	{"A7", "BUSY", [9]string{"r:11,18", "r:8", "r:2", "r:4", "r:4", "r:5", "r u:16", "k:1", "r:6"}},
	{"A8", "CLIENT PAUSE", [9]string{"k a:9,11", "k a:8", "k a:2", "k a:4", "k a e:4", "k a:5", "k a:16", "k:1", "k a:6"}},
	{"A9", "SCRIPT FLUSH", [9]string{"k:9,17", "k:8", "k:2", "k:4", "k:4", "k:5", "k:16", "k:1", "k:6"}},
	{"A10", "OOM", [9]string{"new f, release/renew k:17", "new f, leave queue k:8,12", "new f, release k:2", "new f, release k:4", "new f, release k:4", "init f, countDown k:5", "f u:16", "f u:16", "new f, release k:6"}},
	{"A11", "eviction", [9]string{"preflight f; else d l:11", "d q:8", "d l:2*", "i:4", "i:4", "i:5", "d l:16", "k:1", "d l:6"}},
	{"A12", "FLUSHALL, DEL by hand", [9]string{"l p:7,11", "l q p:8,7", "l p:2*", "i p:4", "i p:4", "i:5", "l u:16", "k (1 node), l (majority):1", "l p:6"}},
	{"A13", "wrong type", [9]string{"f:15", "f:15", "f:15", "f:15", "f:15", "f:15", "f u:16", "k (1 node), f u:16", "f:15"}},
	{"A14", "garbage state", [9]string{"f:15", "f:15,8", "f:15", "f:15", "f:15", "f:15,5", "f u:16", "k/f u:16", "f:15,6"}},
	{"B1", "Sentinel failover in sync", [9]string{"k a p:1,7", "k a p:8", "k a:2", "k a:4", "k a:4", "k a p:5", "k a:16", "", "k a:6"}},
	{"B2", "link cut, no WAIT", [9]string{"d l:1*,11", "d l q:8", "d l:2*", "d:3*", "d e:3*", "d (may need more counts):5", "d l:16", "", "d l:6"}},
	{"B3", "same with WAIT=all", [9]string{"f u:1,17", "f u:8,12", "f u:2", "f u:3,4", "f u:3,4", "a:5", "f u:16", "", "f u:6"}},
	{"B4", "WAIT 1 of 2", [9]string{"d l:11", "d q:8", "d l:2*", "d:3*", "d:3*", "d:5", "d l:16", "", "d l:6"}},
	{"B5", "frozen master", [9]string{"k p l:7,11", "k p l:8,7", "k p l:2,7", "k p:7,4", "k p:7,4", "k p:5,7", "k l:16", "k:1", "k p l:6,7"}},
	{"B6", "READONLY", [9]string{"r:11,9", "r:8", "r:2", "r:4", "r:4", "r:5", "r:16", "k:1", "r:6"}},
	{"B7", "NOREPLICAS", [9]string{"new r f, held l e:11", "r, l e:8", "r, l e:2,11", "r:4", "r e:4", "r:5", "r u:16", "", "r, l e:6"}},
	{"B8", "cluster failover", [9]string{"k a p:1,7", "k a p:8", "k a:2", "k a:4", "k a:4", "k a p:5", "k a:16", "", "k a:6"}},
	{"B9", "MOVED / ASK", [9]string{"k:9,7", "k:8", "k:2", "k:4", "k:4", "k:5", "k:16", "", "k:6"}},
	{"B10", "TRYAGAIN held", [9]string{"k:11", "held k, new r:8,11", "held k, new r:2,11", "k:4", "k or r:4", "k:5", "k:16", "", "k:6,11"}},
	{"B11", "CLUSTERDOWN, MASTERDOWN", [9]string{"r, held l:11,13", "r q:8", "r, held l:11", "r:4,13", "r e:4", "r:5,13", "r u:16", "k:1", "r, held l:6"}},
	{"B12", "promoted clock ahead", [9]string{"d l:1*,11", "d l:8", "d l:2*", "k:4", "d:3*", "k:5", "d l:16", "", "d l:6"}},
	{"C1", "CLIENT KILL pub/sub", [9]string{"k p:7", "k p:7,8", "k p:7,2", "k p:7,4", "k p:7,4", "k p:7,5", "k p:7,16", "k:7", "k p:7,6"}},
	{"C2", "CLIENT KILL normal", [9]string{"a:9,17", "a:9,8", "a:9,2", "a:9,4", "a:9,4", "a:9,5", "a u:16", "k a:1", "a:9,6"}},
	{"C3", "output buffer overflow", [9]string{"k p:7", "k p:7,8", "k p:7", "k p:7,4", "k p:7,4", "k p:7,5", "k p:7", "k:7", "k p:7"}},
	{"C4", "half-open pub/sub", [9]string{"p:7", "p:7,8", "p:7,2", "p:7,4", "p:7,4", "p:7,5", "p:7,16", "p:7", "p:7,6"}},
	{"C5", "half-open command connection", [9]string{"a:9,13", "a:9,13", "a:9,13", "a:9,4", "a:9,4", "a:9,5", "a u:16", "k:1", "a:9,6"}},
	{"C6", "latency, jitter", [9]string{"k v:1,11", "k v:1,8", "k v:2,11", "k:4", "k v:4,11", "k:5", "k v u:16", "k v u:1,16", "k v:1,6"}},
	{"C7", "RST, FIN, slicer 3 bytes, 1 kB/s", [9]string{"a r:9,14", "a r:9,8", "a r:9,2", "a r:9,4", "a r:9,4", "a r:9,5", "a r u:16", "k a:1", "a r:9,6"}},
	{"C8", "partition > lease", [9]string{"l e:1,11", "l e q:8,11", "l e:2,11", "f at ctx:4,13", "l e:4", "p after heal:5,13", "l u:16", "k (minority), l (majority):1", "l e:6,11"}},
	{"C9", "reply lost after the script ran", [9]string{"a:9,17", "a:9 (one place):8", "a:9,2", "a:9,4", "a (same id back):9,4", "a (counts once):9,5", "a u:16", "a u:16", "a (same token back):9,6"}},
	{"C10", "reruns by go-redis", [9]string{"k:9,17", "k:9,8", "k:9,2", "k:9,4", "k:9,4", "k:9,5", "k:9,16", "k:9,16", "k:9,6"}},
	{"C11", "pool exhausted", [9]string{"k:11", "k:11,8", "k:11", "k:4", "k:11", "k:5", "k:11", "k:11", "k:11"}},
	{"C12", "maxclients", [9]string{"r:11,7", "r:8", "r:2", "r:4", "r:4", "r:5", "r u:16", "k:1", "r:6"}},
	{"C13", "channel denied", [9]string{"new: f; later: p, release k:7,10", "f / p:7,8", "f / p:7,2", "f / p:7,4", "f / p:7,4", "f / p:7,5", "f u / p:16", "f / p:7", "f / p:7,6"}},
	{"C14", "rights revoked", [9]string{"l f:11,15", "l f:8,15", "l f:2,15", "f:4,15", "l f:4,15", "f:5,15", "l f u:16", "k (1 node):1", "l f:6,15"}},
	{"C15", "forged messages", [9]string{"k:18,7", "k:18,8", "k:18,2", "k:18,4", "k:18,4", "k:18,5", "k:18", "k:18", "k:18,6"}},
	{"D1", "server clock +60 s", [9]string{"d l:1*,11", "d l q:8", "d l:2*", "k:4", "d:3*,11", "k:5", "d l:16", "k (1 of 5):1", "d l:6"}},
	{"D2", "server clock −60 s", [9]string{"e late:1", "e late, dead places late:8", "e late:2", "k:4", "e late:4", "k:5", "e late:16", "k:1", "e late, token grows:6"}},
	{"D3", "client clock ±1 h", [9]string{"k:11", "k:11", "k:11", "k:4", "k:11", "k:13", "k:11", "k:11", "k:11,6"}},
	{"D4", "machine suspend", [9]string{"l:11", "l q:11,8", "l:11", "k:4", "l:11", "k:13", "l:16", "l:11", "l:11,6"}},
	{"E1", "holder crash", [9]string{"e:7", "e, dead place passed ≤ 1 waiter lease:8,7", "e:2,7", "d: permit gone:4*", "e:4,7", "its counts missing, await ends by ctx:5,13", "e:16", "e:7", "e:6,7"}},
	{"E2", "client frozen > lease", [9]string{"l d:1*,10,11", "l q d:8,11", "l d:2*,11", "k:4", "l d:3*,4", "k:5", "l d:16", "l v d:1*", "l, stale write rejected:6"}},
	{"E3", "cancel at each step", [9]string{"f:13,12,9", "f, place removed:13,12,8", "f:13,12,2", "f:13,4", "f:13,4", "f:13,5", "f u:13,16", "f u:13,16", "f:13,12,6"}},
	{"E4", "Close while waiting/holding", [9]string{"f:13,14,12", "f:13,14,8", "f:13,14", "f:13,14,4", "f:13,14,4", "f:13,14,5", "f u:16,14", "f u:16,14", "f:13,14,6"}},
	{"E5", "10,000 waiters", [9]string{"k:7,14,18", "k:8 exact,18", "k:2,7", "k:3,7", "k:3,4,7", "k: all wake ≤ 2 s:5,18", "k:16,7", "k:7", "k:6,7"}},
	{"E6", "starvation", [9]string{"k or l, never late:11", "k:8,11", "k:11", "k:4", "k:11", "k:5", "k:11", "k v:11", "k:11,6"}},
	{"E7", "panic in the guarded function", [9]string{"released:12,10", "released:12,8", "released:12", "released:4", "released:4", "", "released:16", "released:16", "released:12,6"}},
	{"E8", "name churn", [9]string{"12,14", "12,14", "12,14", "12,14", "12,14", "12,14", "12,14", "12,14", "12 (token key ≤ retention),14"}},
}
