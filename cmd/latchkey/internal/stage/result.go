package stage

import (
	"encoding/json"
	"time"
)

// A Result is the result of a scenario.
type Result struct {
	Name               string
	Workers            int
	Acquisitions       uint64
	Elapsed            time.Duration
	P50, P90, P99, Max time.Duration
	Violations         uint64
	Err                error
}

// MarshalJSON returns the result as JSON.
func (r *Result) MarshalJSON() ([]byte, error) {
	text := ""
	if r.Err != nil {
		text = r.Err.Error()
	}
	return json.Marshal(struct {
		Scenario     string  `json:"scenario"`
		Workers      int     `json:"workers"`
		Acquisitions uint64  `json:"acquisitions"`
		Seconds      float64 `json:"seconds"`
		WaitP50Ms    float64 `json:"wait_p50_ms"`
		WaitP99Ms    float64 `json:"wait_p99_ms"`
		WaitMaxMs    float64 `json:"wait_max_ms"`
		Violations   uint64  `json:"violations"`
		Error        string  `json:"error,omitempty"`
	}{r.Name, r.Workers, r.Acquisitions, r.Elapsed.Seconds(), Milliseconds(r.P50), Milliseconds(r.P99), Milliseconds(r.Max), r.Violations, text})
}

// Milliseconds returns a duration in ms, for programs.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Result returns the result so far.
func (st *Stage) Result() *Result {
	return &Result{
		Name: st.name, Workers: st.Workers, Elapsed: st.elapsed(),
		Acquisitions: st.waits.count.Load(), Violations: st.Violations.Load(),
		P50: st.waits.quantile(0.5), P90: st.waits.quantile(0.9), P99: st.waits.quantile(0.99), Max: st.waits.max(),
	}
}
