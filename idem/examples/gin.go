package examples

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

// Gin is a service with gin.
func Gin(guard Guard, pay Pay) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.Use(gin.Recovery())
	e.POST("/accounts/:account/payments", guarded(guard), func(c *gin.Context) {
		receipt, err := pay(c.Request.Context(), c.Param("account"))
		if err != nil {
			c.AbortWithStatusJSON(http.StatusServiceUnavailable, gin.H{"error": "try again"}) // not kept
			return
		}
		c.String(http.StatusCreated, "%s", receipt)
	})
	return e
}

// guarded makes a middleware of gin of the guard.
func guarded(guard Guard) gin.HandlerFunc {
	return func(c *gin.Context) {
		passed := false
		guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			passed = true
			outer := c.Writer
			inner := &ginWriter{ResponseWriter: outer, to: w, status: http.StatusOK, size: -1}
			c.Writer, c.Request = inner, r
			defer func() { c.Writer = outer }()
			c.Next()
			inner.WriteHeaderNow()
		})).ServeHTTP(c.Writer, c.Request)
		if !passed {
			c.Abort()
		}
	}
}

// A ginWriter is a gin.ResponseWriter that writes to the guard.
type ginWriter struct {
	gin.ResponseWriter // the header

	to           http.ResponseWriter
	status, size int // the size is -1 until something is written
}

func (w *ginWriter) Status() int                 { return w.status }
func (w *ginWriter) Size() int                   { return w.size }
func (w *ginWriter) Written() bool               { return w.size >= 0 }
func (w *ginWriter) Unwrap() http.ResponseWriter { return w.to }

func (w *ginWriter) WriteHeader(status int) {
	if status > 0 && !w.Written() {
		w.status = status
	}
}

func (w *ginWriter) WriteHeaderNow() {
	if !w.Written() {
		w.size = 0
		w.to.WriteHeader(w.status)
	}
}

func (w *ginWriter) Write(b []byte) (int, error) {
	w.WriteHeaderNow()
	n, err := w.to.Write(b)
	w.size += n
	return n, err
}

func (w *ginWriter) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

func (w *ginWriter) Flush() {
	w.WriteHeaderNow()
	_ = http.NewResponseController(w.to).Flush()
}

func (w *ginWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if !w.Written() {
		w.size = 0
	}
	return http.NewResponseController(w.to).Hijack()
}
