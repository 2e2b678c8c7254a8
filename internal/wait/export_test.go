package wait

func init() { beds = true } // here the race detector is to see them
