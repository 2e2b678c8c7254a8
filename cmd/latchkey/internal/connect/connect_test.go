package connect

import (
	"crypto/tls"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

func TestWithoutPasswords(t *testing.T) {
	for in, want := range map[string]string{
		"redis://host:1/2":                        "redis://host:1/2",
		"redis://:pw@host:1/2":                    "redis://host:1/2",
		"rediss://me:pw@host:1?addr=b:2":          "rediss://host:1?addr=b:2",
		"redis://pw@host":                         "redis://host",
		"redis://host?password=pw&addr=b:2":       "redis://host?addr=b%3A2",
		"unix://me:pw@/run/redis.sock?db=1":       "unix:///run/redis.sock?db=1",
		"redis://me@host?sentinel_password=pw":    "redis://host",
		"redis://:p/w@host":                       "",
		"redis://:1#w@host":                       "",
		"redis:pw@host":                           "",
		"redis://:%zz@host":                       "",
		"redis://u:1/w@host":                      "",
		"redis://host:6379/0?client_name=compass": "redis://host:6379/0?client_name=compass",
	} {
		got := WithoutPasswords([]string{"A=1", "REDIS_URL=" + in, "REDISCLI_AUTH=pw", "B="})
		if want == "" {
			assert.Equal(t, []string{"A=1", "B="}, got, in)
		} else {
			assert.Equal(t, []string{"A=1", "REDIS_URL=" + want, "B="}, got, in)
		}
	}
}

// Valkey's URLs mean what Redis's do.
func TestAsRedis(t *testing.T) {
	assert.Equal(t, "rediss://host:1", asRedis("valkeys://host:1"))
	assert.Equal(t, "unix:///valkey://", asRedis("unix:///valkey://"))
	assert.Equal(t, "valkey", asRedis("valkey"))
}

// A server that has answered may come back.
func TestDoorStaysOpen(t *testing.T) {
	var d door
	d.addrs = []string{"a", "b"}
	var told []error
	d.shut(func(err error) { told = append(told, err) })
	d.refused("a", errTLS)
	assert.Empty(t, told, "there is another address")
	d.refused("b", errNoTLS)
	assert.Equal(t, []error{errNoTLS}, told)
	d.opened()
	d.refused("b", errNoTLS)
	assert.Len(t, told, 1)
}

// What a server has said is told, also if it has closed the connection before anything
// is written to it.
func TestRefusalBeforeAWrite(t *testing.T) {
	secure := redistest.StartTLS(t)
	for _, c := range []struct {
		conf *tls.Config
		want string
	}{
		{&tls.Config{InsecureSkipVerify: true}, "certificate required"},
		{nil, errTLS.Error()},
	} {
		d := &door{addrs: []string{secure.TLSAddr}}
		var told []error
		d.shut(func(err error) { told = append(told, err) })
		conn, err := d.dialer(c.conf, 0)(t.Context(), "tcp", secure.TLSAddr)
		require.NoError(t, err)
		redistest.Until(t, "the server to have closed the connection", func() bool {
			_, err = conn.Write([]byte("PING\r\n"))
			return err != nil
		})
		require.ErrorContains(t, err, c.want)
		require.Equal(t, []error{err}, told)
		_, err = conn.Write([]byte("PING\r\n"))
		require.Error(t, err)
		require.Len(t, told, 1, "once")
		_ = conn.Close() // TLS cannot say goodbye
	}
}

// A URL that makes no sense is an error that does not repeat it: it may hold a
// password.
func FuzzURL(f *testing.F) {
	for _, s := range []string{"", "redis://h:6379/0", "redis://u:hunter2@h", "rediss://:hunter2@h/x", "unix:///hunter2", "redis://h?addr=hunter2:1", "%zz", "redis://[::1"} {
		for how := range uint8(3) {
			f.Add(s, how)
		}
	}
	f.Fuzz(func(t *testing.T, text string, how uint8) {
		c := &Flags{}
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.Register(fs)
		require.NoError(t, fs.Set("url", text))
		switch how % 3 {
		case 1:
			c.Cluster = true
		case 2:
			c.sentinelMaster = "m"
		}
		rdb, _, err := c.Open()
		if err == nil {
			require.NoError(t, rdb.Close())
			return
		}
		require.NotEmpty(t, err.Error())
		if len(text) > 30 { // what is short may be in any sentence
			require.NotContains(t, err.Error(), text)
		}
	})
}
