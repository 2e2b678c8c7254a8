package examples

import (
	"net/http"

	"github.com/labstack/echo/v5"
)

// Echo is a service with echo. What a handler returns as an error becomes a response
// inside the guard, which would otherwise see a handler that has answered nothing, and
// keep that.
func Echo(guard Guard, pay Pay) http.Handler {
	e := echo.New()
	e.POST("/accounts/:account/payments", func(c *echo.Context) error {
		receipt, err := pay(c.Request().Context(), c.Param("account"))
		if err != nil {
			return echo.NewHTTPError(http.StatusServiceUnavailable, "try again") // not kept
		}
		return c.String(http.StatusCreated, receipt)
	}, echo.WrapMiddleware(guard), errorsHere)
	return e
}

// errorsHere is a middleware that makes responses of errors.
func errorsHere(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) error {
		if err := next(c); err != nil {
			c.Echo().HTTPErrorHandler(c, err)
		}
		return nil
	}
}
