package lua

import (
	"crypto/fips140"
	"crypto/sha1" //nolint:gosec // see SHA1
	_ "embed"
	"encoding/hex"
)

// A Script is the text of one script and the name under which Redis caches it.
//
// It is not a go-redis Script, because that type sends with go-redis's own
// retries, whereas latchkey sends each script once and decides about retries
// itself.
type Script struct {
	// Name is the file without its extension: "rlock/acquire".
	Name string
	// Source is the text that EVAL takes.
	Source string
	// SHA is the lower-case hex SHA-1 of Source, which EVALSHA takes.
	SHA string
	// Index is the number of the script, below Max.
	Index int
	// Reads is set if the script only reads, so that EVALSHA_RO can run it too.
	Reads bool

	arg any // SHA as an argument
}

// Arg returns SHA as an argument, which costs no allocation.
func (s *Script) Arg() any { return s.arg }

// Max is an upper bound of the number of scripts.
const Max = 128

var count int // number of scripts; all are made when the program starts

func newScript(name, source string) *Script {
	sum := SHA1([]byte(source))
	sha := hex.EncodeToString(sum[:])
	count++
	return &Script{Name: name, Source: source, SHA: sha, Index: count - 1, arg: sha}
}

// newReader is newScript for a script that only reads.
func newReader(name, source string) *Script {
	s := newScript(name, source)
	s.Reads = true
	return s
}

// SHA1 returns the hash by which EVALSHA names a script and that redis.sha1hex
// makes. It serves for names and tags; no secrecy depends on it. It also works
// with GODEBUG=fips140=only, under which package crypto/sha1 panics.
func SHA1(b []byte) [sha1.Size]byte {
	if fips140.Enforced() {
		return unenforcedSHA1(string(b)) // b itself would move to the heap
	}
	return sha1.Sum(b) //nolint:gosec // see above
}

func unenforcedSHA1(s string) (sum [sha1.Size]byte) {
	fips140.WithoutEnforcement(func() { sum = sha1.Sum([]byte(s)) }) //nolint:gosec // see SHA1
	return sum
}

//go:embed publish.lua
var publish string

// The scripts of the reentrant lock.
var (
	//go:embed rlock/acquire.lua
	rlockAcquire string
	//go:embed rlock/acquire_many.lua
	rlockAcquireMany string
	//go:embed rlock/release.lua
	rlockRelease string
	//go:embed rlock/release_many.lua
	rlockReleaseMany string
	//go:embed rlock/pass.lua
	rlockPass string
	//go:embed rlock/renew.lua
	rlockRenew string
	//go:embed rlock/force.lua
	rlockForce string
	//go:embed rlock/state.lua
	rlockState string

	// RLockAcquire takes the lock; see rlock/acquire.lua for its contract.
	RLockAcquire = newScript("rlock/acquire", rlockAcquire)
	// RLockAcquireMany takes many locks that are free; see rlock/acquire_many.lua.
	RLockAcquireMany = newScript("rlock/acquire_many", rlockAcquireMany)
	// RLockRelease brings a hold count down; see rlock/release.lua.
	RLockRelease = newScript("rlock/release", publish+rlockRelease)
	// RLockReleaseMany frees many locks; see rlock/release_many.lua.
	RLockReleaseMany = newScript("rlock/release_many", rlockReleaseMany)
	// RLockPass gives the lock back and takes it for another holder; see
	// rlock/pass.lua.
	RLockPass = newScript("rlock/pass", publish+rlockPass)
	// RLockRenew extends the leases of many locks; see rlock/renew.lua.
	RLockRenew = newScript("rlock/renew", rlockRenew)
	// RLockForce frees the lock whoever holds it; see rlock/force.lua.
	RLockForce = newScript("rlock/force", publish+rlockForce)
	// RLockState reads the lock; see rlock/state.lua.
	RLockState = newReader("rlock/state", rlockState)
)

// The scripts of the read-write lock. Those that look at all readers begin with
// a common part.
var (
	//go:embed rwlock/readers.lua
	rwlockReaders string
	//go:embed rwlock/acquire_read.lua
	rwlockAcquireRead string
	//go:embed rwlock/acquire_read_many.lua
	rwlockAcquireReadMany string
	//go:embed rwlock/acquire_write.lua
	rwlockAcquireWrite string
	//go:embed rwlock/release_read.lua
	rwlockReleaseRead string
	//go:embed rwlock/release_read_many.lua
	rwlockReleaseReadMany string
	//go:embed rwlock/release_write.lua
	rwlockReleaseWrite string
	//go:embed rwlock/renew.lua
	rwlockRenew string
	//go:embed rwlock/force.lua
	rwlockForce string
	//go:embed rwlock/state.lua
	rwlockState string

	// RWLockAcquireRead takes the read lock; see rwlock/acquire_read.lua for its
	// contract.
	RWLockAcquireRead = newScript("rwlock/acquire_read", rwlockAcquireRead)
	// RWLockAcquireReadMany takes the read lock for many; see
	// rwlock/acquire_read_many.lua.
	RWLockAcquireReadMany = newScript("rwlock/acquire_read_many", rwlockAcquireReadMany)
	// RWLockAcquireWrite takes the write lock; see rwlock/acquire_write.lua.
	RWLockAcquireWrite = newScript("rwlock/acquire_write", rwlockReaders+rwlockAcquireWrite)
	// RWLockReleaseRead brings a reader's hold count down; see
	// rwlock/release_read.lua.
	RWLockReleaseRead = newScript("rwlock/release_read", publish+rwlockReaders+rwlockReleaseRead)
	// RWLockReleaseReadMany gives back a hold each of many readers; see
	// rwlock/release_read_many.lua.
	RWLockReleaseReadMany = newScript("rwlock/release_read_many", rwlockReaders+rwlockReleaseReadMany)
	// RWLockReleaseWrite brings the writer's hold count down; see
	// rwlock/release_write.lua.
	RWLockReleaseWrite = newScript("rwlock/release_write", publish+rwlockReaders+rwlockReleaseWrite)
	// RWLockRenew extends the leases of both halves of many locks; see
	// rwlock/renew.lua.
	RWLockRenew = newScript("rwlock/renew", rwlockRenew)
	// RWLockForce frees one half whoever holds it; see rwlock/force.lua.
	RWLockForce = newScript("rwlock/force", publish+rwlockReaders+rwlockForce)
	// RWLockState reads one half; see rwlock/state.lua.
	RWLockState = newReader("rwlock/state", rwlockReaders+rwlockState)
)

// The scripts of the fair lock. Those that handle the head of the queue begin
// with a common part.
var (
	//go:embed fairlock/queue.lua
	fairlockQueue string
	//go:embed fairlock/acquire.lua
	fairlockAcquire string
	//go:embed fairlock/release.lua
	fairlockRelease string
	//go:embed fairlock/leave.lua
	fairlockLeave string
	//go:embed fairlock/keep.lua
	fairlockKeep string
	//go:embed fairlock/force.lua
	fairlockForce string
	//go:embed fairlock/waiters.lua
	fairlockWaiters string
	//go:embed fairlock/delete.lua
	fairlockDelete string

	// FairLockAcquire takes the lock or queues; see fairlock/acquire.lua for its
	// contract, and fairlock/queue.lua for the queue's.
	FairLockAcquire = newScript("fairlock/acquire", publish+fairlockQueue+fairlockAcquire)
	// FairLockRelease brings a hold count down; see fairlock/release.lua.
	FairLockRelease = newScript("fairlock/release", publish+fairlockQueue+fairlockRelease)
	// FairLockLeave gives up a place in the queue; see fairlock/leave.lua.
	FairLockLeave = newScript("fairlock/leave", publish+fairlockQueue+fairlockLeave)
	// FairLockKeep says which waiters are alive; see fairlock/keep.lua.
	FairLockKeep = newScript("fairlock/keep", fairlockKeep)
	// FairLockForce frees the lock whoever holds it; see fairlock/force.lua.
	FairLockForce = newScript("fairlock/force", publish+fairlockQueue+fairlockForce)
	// FairLockWaiters reads the queue; see fairlock/waiters.lua.
	FairLockWaiters = newReader("fairlock/waiters", fairlockWaiters)
	// FairLockDelete removes the lock and its queue; see fairlock/delete.lua.
	FairLockDelete = newScript("fairlock/delete", publish+fairlockQueue+fairlockDelete)
)

// integer is the common part of the scripts that count in a string.
//
//go:embed integer.lua
var integer string

// The scripts of the semaphore.
var (
	//go:embed semaphore/acquire.lua
	semaphoreAcquire string
	//go:embed semaphore/acquire_many.lua
	semaphoreAcquireMany string
	//go:embed semaphore/release.lua
	semaphoreRelease string
	//go:embed semaphore/undo.lua
	semaphoreUndo string
	//go:embed semaphore/set.lua
	semaphoreSet string
	//go:embed semaphore/drain.lua
	semaphoreDrain string
	//go:embed semaphore/delete.lua
	semaphoreDelete string
	//go:embed semaphore/state.lua
	semaphoreState string

	// SemaphoreAcquire takes permits; see semaphore/acquire.lua for its contract.
	SemaphoreAcquire = newScript("semaphore/acquire", integer+semaphoreAcquire)
	// SemaphoreAcquireMany takes permits for several callers; see
	// semaphore/acquire_many.lua.
	SemaphoreAcquireMany = newScript("semaphore/acquire_many", integer+semaphoreAcquireMany)
	// SemaphoreRelease gives permits; see semaphore/release.lua.
	SemaphoreRelease = newScript("semaphore/release", publish+integer+semaphoreRelease)
	// SemaphoreUndo takes an acquire back; see semaphore/undo.lua.
	SemaphoreUndo = newScript("semaphore/undo", publish+semaphoreUndo)
	// SemaphoreSet makes a semaphore; see semaphore/set.lua.
	SemaphoreSet = newScript("semaphore/set", publish+integer+semaphoreSet)
	// SemaphoreDrain takes all permits; see semaphore/drain.lua.
	SemaphoreDrain = newScript("semaphore/drain", integer+semaphoreDrain)
	// SemaphoreDelete removes a semaphore; see semaphore/delete.lua.
	SemaphoreDelete = newScript("semaphore/delete", integer+semaphoreDelete)
	// SemaphoreState reads a semaphore; see semaphore/state.lua.
	SemaphoreState = newReader("semaphore/state", integer+semaphoreState)
)

// The scripts of the count-down latch.
var (
	//go:embed countdownlatch/set.lua
	latchSet string
	//go:embed countdownlatch/countdown.lua
	latchCountDown string
	//go:embed countdownlatch/delete.lua
	latchDelete string
	//go:embed countdownlatch/state.lua
	latchState string

	// LatchSet begins a count; see countdownlatch/set.lua for its contract.
	LatchSet = newScript("countdownlatch/set", publish+integer+latchSet)
	// LatchCountDown counts one down; see countdownlatch/countdown.lua.
	LatchCountDown = newScript("countdownlatch/countdown", publish+integer+latchCountDown)
	// LatchDelete ends a count; see countdownlatch/delete.lua.
	LatchDelete = newScript("countdownlatch/delete", publish+integer+latchDelete)
	// LatchState reads a count; see countdownlatch/state.lua.
	LatchState = newReader("countdownlatch/state", integer+latchState)
)

// The scripts of the semaphore of permits that expire.
var (
	//go:embed hex.lua
	hexDigits string
	//go:embed permitsemaphore/acquire.lua
	permitAcquire string
	//go:embed permitsemaphore/release.lua
	permitRelease string
	//go:embed permitsemaphore/set.lua
	permitSet string
	//go:embed permitsemaphore/resize.lua
	permitResize string
	//go:embed permitsemaphore/add.lua
	permitAdd string
	//go:embed permitsemaphore/state.lua
	permitState string
	//go:embed permitsemaphore/lease.lua
	permitLease string
	//go:embed permitsemaphore/update.lua
	permitUpdate string
	//go:embed permitsemaphore/renew.lua
	permitRenew string
	//go:embed permitsemaphore/delete.lua
	permitDelete string

	// PermitAcquire leases permits; see permitsemaphore/acquire.lua for its
	// contract.
	PermitAcquire = newScript("permitsemaphore/acquire", publish+integer+permitAcquire)
	// PermitRelease gives permits back; see permitsemaphore/release.lua.
	PermitRelease = newScript("permitsemaphore/release", publish+integer+hexDigits+permitRelease)
	// PermitSet makes a semaphore; see permitsemaphore/set.lua.
	PermitSet = newScript("permitsemaphore/set", publish+integer+permitSet)
	// PermitResize sets the number of permits; see permitsemaphore/resize.lua.
	PermitResize = newScript("permitsemaphore/resize", publish+integer+permitResize)
	// PermitAdd changes the number of permits; see permitsemaphore/add.lua.
	PermitAdd = newScript("permitsemaphore/add", publish+integer+permitAdd)
	// PermitState reads a semaphore; see permitsemaphore/state.lua.
	PermitState = newScript("permitsemaphore/state", publish+integer+permitState)
	// PermitLease reads a lease; see permitsemaphore/lease.lua.
	PermitLease = newScript("permitsemaphore/lease", permitLease)
	// PermitUpdate changes a lease; see permitsemaphore/update.lua.
	PermitUpdate = newScript("permitsemaphore/update", publish+permitUpdate)
	// PermitRenew extends the leases of many permits; see
	// permitsemaphore/renew.lua.
	PermitRenew = newScript("permitsemaphore/renew", permitRenew)
	// PermitDelete removes a semaphore; see permitsemaphore/delete.lua.
	PermitDelete = newScript("permitsemaphore/delete", integer+hexDigits+permitDelete)
)

// The scripts of the group lock.
var (
	//go:embed multilock/acquire.lua
	groupAcquire string
	//go:embed multilock/release.lua
	groupRelease string
	//go:embed multilock/renew.lua
	groupRenew string
	//go:embed multilock/force.lua
	groupForce string
	//go:embed multilock/state.lua
	groupState string

	// GroupAcquire takes the values of a set; see multilock/acquire.lua for its
	// contract.
	GroupAcquire = newScript("multilock/acquire", groupAcquire)
	// GroupRelease brings the hold count of a set down; see multilock/release.lua.
	GroupRelease = newScript("multilock/release", publish+groupRelease)
	// GroupRenew extends the leases of many sets; see multilock/renew.lua.
	GroupRenew = newScript("multilock/renew", groupRenew)
	// GroupForce frees the values of a set whoever holds them; see
	// multilock/force.lua.
	GroupForce = newScript("multilock/force", publish+groupForce)
	// GroupState reads a set; see multilock/state.lua.
	GroupState = newReader("multilock/state", groupState)
)

// The scripts that are only for people: they read, or say who somebody is.
var (
	//go:embed inspect/object.lua
	inspectObject string
	//go:embed inspect/fields.lua
	inspectFields string
	//go:embed inspect/permits.lua
	inspectPermits string
	//go:embed inspect/sides.lua
	inspectSides string
	//go:embed label/write.lua
	labelWrite string
	//go:embed label/ended.lua
	labelEnded string

	// InspectObject shows what stands under a name; see inspect/object.lua.
	InspectObject = newReader("inspect/object", inspectObject)
	// InspectFields reads a piece of a hash; see inspect/fields.lua.
	InspectFields = newReader("inspect/fields", inspectFields)
	// InspectPermits reads a piece of the permits that are out; see inspect/permits.lua.
	InspectPermits = newReader("inspect/permits", inspectPermits)
	// InspectSides reads side keys; see inspect/sides.lua.
	InspectSides = newReader("inspect/sides", inspectSides)
	// LabelWrite writes, keeps or removes labels; see label/write.lua.
	LabelWrite = newScript("label/write", labelWrite)
	// LabelEnded writes the label of what stays closed; see label/ended.lua.
	LabelEnded = newScript("label/ended", labelEnded)
)

// The scripts of elections.
var (
	//go:embed elect/begin.lua
	electBegin string
	//go:embed elect/read.lua
	electRead string
	//go:embed elect/offer.lua
	electOffer string
	//go:embed elect/accept.lua
	electAccept string
	//go:embed elect/tell.lua
	electTell string

	// ElectBegin begins a term; see elect/begin.lua.
	ElectBegin = newScript("elect/begin", publish+electBegin)
	// ElectRead reads who leads; see elect/read.lua.
	ElectRead = newReader("elect/read", electRead)
	// ElectOffer offers the lead to a candidate; see elect/offer.lua.
	ElectOffer = newScript("elect/offer", publish+electOffer)
	// ElectAccept accepts such an offer; see elect/accept.lua.
	ElectAccept = newScript("elect/accept", publish+electAccept)
	// ElectTell tells that a term has ended; see elect/tell.lua.
	ElectTell = newScript("elect/tell", publish+electTell)
)

// The scripts of jobs that run once for each fire. Those that write begin with a
// common part.
var (
	//go:embed once/note.lua
	onceNote string
	//go:embed once/begin.lua
	onceBegin string
	//go:embed once/finish.lua
	onceFinish string
	//go:embed once/list.lua
	onceList string
	//go:embed once/read.lua
	onceRead string

	// OnceBegin begins a run; see once/begin.lua.
	OnceBegin = newScript("once/begin", onceNote+onceBegin)
	// OnceFinish notes how a run has ended; see once/finish.lua.
	OnceFinish = newScript("once/finish", onceNote+onceFinish)
	// OnceList reads which fires were run last; see once/list.lua.
	OnceList = newReader("once/list", onceList)
	// OnceRead reads runs; see once/read.lua.
	OnceRead = newReader("once/read", onceRead)
)

// The scripts that keep what came of a call. They begin with a common part, all but one.
var (
	//go:embed memo/note.lua
	memoNote string
	//go:embed memo/begin.lua
	memoBegin string
	//go:embed memo/finish.lua
	memoFinish string
	//go:embed memo/read.lua
	memoRead string
	//go:embed memo/forget.lua
	memoForget string

	// MemoBegin begins a call; see memo/begin.lua.
	MemoBegin = newScript("memo/begin", memoNote+memoBegin)
	// MemoFinish keeps what came of it; see memo/finish.lua.
	MemoFinish = newScript("memo/finish", memoNote+memoFinish)
	// MemoRead reads what is known; see memo/read.lua.
	MemoRead = newReader("memo/read", memoNote+memoRead)
	// MemoForget forgets it; see memo/forget.lua.
	MemoForget = newScript("memo/forget", memoForget)
)

// The script of the history.
var (
	//go:embed history/write.lua
	historyWrite string

	// HistoryWrite appends events; see history/write.lua.
	HistoryWrite = newScript("history/write", historyWrite)
)
